package conformance

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"sync"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/credentials"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

const (
	// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
	firstExtraFile = 3
	// maxLine is the longest handshake that is read.
	maxLine = 64 << 10
	// drainDelay is how long the end of a process waits for those who inherited its output.
	drainDelay = time.Second
	// clientCertEnv names the environment variable with the certificate of the client.
	clientCertEnv = "PLUGIN_CLIENT_CERT"
	// versionsEnv names the environment variable with the versions of the protocol that the host offers.
	versionsEnv = "PLUGIN_PROTOCOL_VERSIONS"
)

// inherited are the environment variables that a plugin gets from this process. The host, too, passes only a few.
var inherited = []string{"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"}

// run is one process of a plugin.
type run struct {
	path    string
	options Options
	limits  limits

	cmd       *exec.Cmd
	identity  *identity
	endpoint  *endpoint
	socketDir string
	stdout    *os.File
	lifeline  *os.File
	output    *output
	readers   sync.WaitGroup

	ended   chan struct{} // closed when the process is gone
	exitErr error         // valid once ended is closed
	closing sync.Once
}

// Start starts a program as the host does and shakes hands with it. It uses Env, Args, Start and Output of the options. ctx bounds the
// start alone; Close ends the process. When Start fails nothing is left running.
func Start(ctx context.Context, path string, o Options) (*Plugin, error) {
	r := &run{path: path, options: o, limits: o.bounds(), output: newOutput(o.Output), ended: make(chan struct{})}
	if err := r.prepare(); err != nil {
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	line, err := r.start()
	if err != nil {
		r.discard()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	if err := r.shakeHands(ctx, line); err != nil {
		r.kill()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	conn, err := r.dial(r.identity)
	if err != nil {
		r.kill()
		return nil, fmt.Errorf("start %s: connect: %w", path, err)
	}
	p := &Plugin{conn: conn, service: deployerv1.NewDeployerServiceClient(conn), limits: r.limits, run: r}
	if err := connect(ctx, conn, r.limits.answer); err != nil {
		_ = conn.Close()
		r.kill()
		return nil, fmt.Errorf("start %s: %w", path, err)
	}
	r.readers.Go(func() { forwardStdio(conn, r.output) }) //nolint:contextcheck // it lives as long as the connection
	return p, nil
}

// connect waits for the connection. It gives the plugin a second chance, which may shake hands before it listens.
func connect(ctx context.Context, conn *grpc.ClientConn, within time.Duration) error {
	const secondChance = 3 * time.Second
	waiting, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for state := conn.GetState(); state != connectivity.Ready; state = conn.GetState() {
		conn.Connect()
		if state == connectivity.TransientFailure {
			time.AfterFunc(secondChance, cancel)
		}
		if conn.WaitForStateChange(waiting, state) {
			continue
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return handshakeErrorf(RuleMutualTLS, "no connection to the plugin with TLS, the certificate of its handshake and an ECDSA P-256 client certificate (%s)", clientCertEnv)
	}
	return nil
}

// prepare makes the command and what it needs.
func (r *run) prepare() error {
	var err error
	if r.identity, err = newIdentity(); err != nil {
		return err
	}
	// The name is short, because the address of a Unix socket must be.
	if r.socketDir, err = os.MkdirTemp("", "conform"); err != nil {
		return fmt.Errorf("create directory for the socket: %w", err)
	}
	if r.socketDir, err = filepath.EvalSymlinks(r.socketDir); err != nil {
		return fmt.Errorf("find directory for the socket: %w", err)
	}
	r.cmd = exec.Command(r.path, r.options.Args...) //nolint:gosec,noctx // the caller means this program; close ends it
	r.cmd.Env = append(r.environment(), r.options.Env...)
	r.cmd.Stderr = r.output
	r.cmd.WaitDelay = drainDelay
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

func (r *run) environment() []string {
	config := handshake.Config()
	env := []string{
		config.MagicCookieKey + "=" + config.MagicCookieValue,
		versionsEnv + "=" + strconv.Itoa(handshake.ProtocolVersion),
		goplugin.EnvUnixSocketDir + "=" + r.socketDir,
		clientCertEnv + "=" + string(r.identity.pem),
		handshake.LifelineEnv + "=" + strconv.Itoa(firstExtraFile),
		handshake.LogLevelEnv + "=debug",
		"HOME=" + r.socketDir,
		"TMPDIR=" + r.socketDir,
	}
	for _, name := range inherited {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// start starts the process and returns where the first line of its standard output arrives. The channel is closed without one
// when the output ends before.
func (r *run) start() (<-chan string, error) {
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create lifeline: %w", err)
	}
	r.lifeline = lifeline
	defer func() { _ = lifelineEnd.Close() }() // the child has its own copy by then, or never will
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("create standard output: %w", err)
	}
	r.stdout = stdout
	defer func() { _ = stdoutEnd.Close() }()
	r.cmd.ExtraFiles = []*os.File{lifelineEnd}
	r.cmd.Stdout = stdoutEnd
	if r.options.Start == nil {
		err = r.cmd.Start()
	} else {
		r.cmd, err = r.options.Start(r.cmd, r.socketDir)
	}
	if err != nil {
		return nil, err
	}
	line := make(chan string, 1)
	r.readers.Go(func() { r.readStdout(line) })
	go func() { // ends with the process
		r.exitErr = r.cmd.Wait()
		r.killGroup() // mostly there is nobody left
		_ = r.stdout.Close()
		close(r.ended)
	}()
	return line, nil
}

// readStdout sends the first line and passes on what follows.
func (r *run) readStdout(line chan<- string) {
	defer close(line)
	buffered := bufio.NewReaderSize(r.stdout, maxLine)
	first, err := buffered.ReadSlice('\n')
	if err == nil || len(first) > 0 {
		line <- string(first)
	}
	_, _ = io.Copy(r.output, buffered) // it ends with the process
}

// shakeHands waits for the handshake and reads it.
func (r *run) shakeHands(ctx context.Context, line <-chan string) error {
	timer := time.NewTimer(r.limits.start)
	defer timer.Stop()
	select {
	case first, ok := <-line:
		if !ok {
			return handshakeErrorf(RuleHandshakeLine, "no handshake: %s", r.howItEnded())
		}
		var err error
		r.endpoint, err = parseHandshake(first, r.socketDir)
		return err
	case <-timer.C:
		return handshakeErrorf(RuleHandshakeLine, "no handshake within %s", r.limits.start)
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

func (r *run) howItEnded() string {
	select {
	case <-r.ended:
		if r.exitErr == nil {
			return "the program ended with exit status 0"
		}
		return "the program ended with " + r.exitErr.Error()
	case <-time.After(drainDelay):
		return "the program closed its standard output"
	}
}

// dial connects to the plugin as a client with the given identity; nil for one that has none.
func (r *run) dial(as *identity) (*grpc.ClientConn, error) {
	config := tlsConfig(r.endpoint.certificate)
	if as != nil {
		config = tlsConfig(r.endpoint.certificate, as.certificate)
	}
	return dial("unix://"+r.endpoint.socket, credentials.NewTLS(config))
}

// ends reports whether the process ends in time.
func (r *run) ends(within time.Duration) bool {
	select {
	case <-r.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// close ends the process in order, or else by force.
func (r *run) close(conn *grpc.ClientConn) {
	r.closing.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), r.limits.grace)
		defer cancel()
		if shutdown(ctx, conn) == nil {
			r.ends(r.limits.grace)
		}
		_ = conn.Close()
		r.kill()
	})
}

// kill ends the process by force and gives back what it had of this one.
func (r *run) kill() {
	select {
	case <-r.ended: // its group went with it, and the number may be somebody else's by now
	default:
		r.killGroup()
	}
	<-r.ended
	r.discard()
}

func (r *run) discard() {
	for _, file := range []*os.File{r.lifeline, r.stdout} {
		if file != nil {
			_ = file.Close()
		}
	}
	r.readers.Wait()
	_ = os.RemoveAll(r.socketDir)
}

// killGroup kills the process and whatever it has started.
func (r *run) killGroup() { _ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }
