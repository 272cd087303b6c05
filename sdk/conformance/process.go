package conformance

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc/connectivity"

	"github.com/pergola-deploy/pergola/proto/handshake"
)

const (
	// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
	firstExtraFile = 3
	// drainDelay is how long the end of a process waits for those who inherited its output.
	drainDelay = time.Second
	// killDelay is how long a process may take to end in order, before it is killed.
	killDelay = 3 * time.Second
)

// process is a program that was started here. It is what go-plugin's client runs: with a lifeline and a process group
// of its own.
type process struct {
	path    string
	options Options
	client  *goplugin.Client
	tls     *tls.Config // go-plugin adds the plugin's certificate
	output  *lockedWriter

	env      []string // of the protocol
	dir      string   // of the socket
	socket   string
	cmd      *exec.Cmd
	lifeline *os.File
	stdout   *os.File
	ended    chan struct{} // closed when the process is gone

	mu      sync.Mutex
	running bool
}

var _ runner.Runner = (*process)(nil)

// Start starts a program as the host does and shakes hands with it. It uses Env, Args, Start and Output of the options.
// ctx bounds the start alone; Close ends the process. When Start fails nothing is left running.
func Start(ctx context.Context, path string, o Options) (*Plugin, error) {
	tlsConfig, certificate, err := handshake.ClientTLS()
	if err != nil {
		return nil, err
	}
	p := &process{path: path, options: o, tls: tlsConfig, output: &lockedWriter{to: o.Output}, ended: make(chan struct{})}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     o.bounds().probe,
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       p.output,
		SyncStderr:       p.output,
		GRPCDialOptions:  dialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (runner.Runner, error) {
			p.env, p.dir = slices.Concat(spec.Env, []string{"PLUGIN_CLIENT_CERT=" + string(certificate)}), dir
			return p, nil
		},
	})
	defer context.AfterFunc(ctx, p.kill)()
	plugin, err := p.connect(ctx)
	if err == nil {
		return plugin, nil
	}
	p.close()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return nil, fmt.Errorf("start %s: %w", path, err)
}

func (p *process) connect(ctx context.Context) (*Plugin, error) {
	protocol, err := p.client.Client()
	if p.cmd == nil { // nothing was started, which says nothing about the plugin
		return nil, err
	}
	if err != nil {
		return nil, &unusableError{RuleHandshake, err.Error()}
	}
	client, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, errors.New("go-plugin's client does not speak gRPC, although nothing else is allowed")
	}
	// go-plugin has tried to make a call by now, of which the connection may not know yet.
	state := client.Conn.GetState()
	for state == connectivity.Connecting && client.Conn.WaitForStateChange(ctx, state) {
		state = client.Conn.GetState()
	}
	if state != connectivity.Ready {
		return nil, &unusableError{RuleMutualTLS, "no connection to the plugin with TLS, the certificate of its " +
			"handshake and an ECDSA P-256 client certificate (PLUGIN_CLIENT_CERT)"}
	}
	plugin, err := newPlugin(ctx, client.Conn, p.options)
	if err != nil {
		return nil, err
	}
	plugin.process = p
	return plugin, nil
}

// Start starts the program, and a goroutine that ends with it. go-plugin calls it, and the methods below.
func (p *process) Start(context.Context) error {
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create standard output: %w", errors.Join(err, lifelineEnd.Close(), lifeline.Close()))
	}
	p.lifeline, p.stdout = lifeline, stdout
	defer func() { // the child has its own copies by then, or never will
		_ = lifelineEnd.Close()
		_ = stdoutEnd.Close()
	}()
	cmd := exec.Command(p.path, p.options.Args...) //nolint:gosec,noctx // the caller means this program; close ends it
	cmd.Env = p.env
	for _, name := range []string{"PATH", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if value, ok := os.LookupEnv(name); ok {
			cmd.Env = append(cmd.Env, name+"="+value)
		}
	}
	cmd.Env = slices.Concat(cmd.Env, []string{
		handshake.LifelineEnv + "=" + strconv.Itoa(firstExtraFile), handshake.LogLevelEnv + "=debug",
		"HOME=" + p.dir, "TMPDIR=" + p.dir,
	}, p.options.Env)
	cmd.ExtraFiles = []*os.File{lifelineEnd}
	cmd.Stdout, cmd.Stderr = stdoutEnd, p.output
	cmd.WaitDelay = drainDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}

	p.mu.Lock()
	defer p.mu.Unlock()
	if p.options.Start == nil {
		err = cmd.Start()
	} else {
		cmd, err = p.options.Start(cmd, p.dir)
	}
	if err != nil {
		return err
	}
	p.cmd, p.running = cmd, true
	go func() {
		_ = cmd.Wait() // how it ended is in its ProcessState
		p.kill()       // mostly there is nobody left
		p.mu.Lock()
		p.running = false // the number may be somebody else's from now on
		p.mu.Unlock()
		// What it has written is read to the end, which never comes if somebody else holds the pipe.
		_ = stdout.SetReadDeadline(time.Now().Add(drainDelay))
		close(p.ended)
	}()
	return nil
}

func (p *process) Stdout() io.ReadCloser { return p.stdout }

// Stderr is empty: the command writes to the output itself.
func (p *process) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (p *process) Wait(context.Context) error {
	<-p.ended
	return nil
}

func (p *process) Kill(context.Context) error {
	p.kill()
	return nil
}

func (p *process) Name() string { return p.path }

func (p *process) ID() string { return p.path }

// Diagnose says why there is no handshake.
func (p *process) Diagnose(context.Context) string {
	if !p.ends(drainDelay) {
		return "the program goes on without a handshake"
	}
	return "the program ended with " + p.cmd.ProcessState.String()
}

// PluginToHost sees the network and the address of the handshake.
func (p *process) PluginToHost(network, address string) (string, string, error) {
	p.socket = filepath.Clean(address)
	if network != "unix" || !strings.HasPrefix(p.socket, p.dir+string(filepath.Separator)) {
		return "", "", fmt.Errorf("it listens on %.100q at %.100q; expected a Unix socket in %s (%s)",
			network, address, p.dir, goplugin.EnvUnixSocketDir)
	}
	return network, p.socket, nil
}

func (p *process) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// ends reports whether the process ends in time.
func (p *process) ends(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// close ends the process in order, or else by force.
func (p *process) close() {
	// Kill asks the plugin without a deadline, which one that hangs never answers.
	defer time.AfterFunc(killDelay, p.kill).Stop()
	p.client.Kill()
	if p.lifeline != nil {
		_ = p.lifeline.Close()
		_ = p.stdout.Close()
	}
}

// kill kills the process, if it runs, and whatever it has started.
func (p *process) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// lockedWriter lets several goroutines write; to may be nil.
type lockedWriter struct {
	mu sync.Mutex
	to io.Writer
}

func (w *lockedWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.to != nil {
		_, _ = w.to.Write(p) // a write must not fail, because the plugin's pipe would break
	}
	return len(p), nil
}
