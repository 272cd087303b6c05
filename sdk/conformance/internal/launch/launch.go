// Package launch starts a plugin as the host does: with the handshake, mutual TLS, a lifeline and a process group.
package launch

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
	"google.golang.org/grpc"
	"google.golang.org/grpc/connectivity"

	"github.com/pergola-deploy/pergola/proto/handshake"
	"github.com/pergola-deploy/pergola/proto/wire"
)

const (
	// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
	firstExtraFile = 3
	// drainDelay bounds the wait for output of child processes after the end.
	drainDelay = time.Second
	// killDelay is the time between the request to end and the kill.
	killDelay = 3 * time.Second
)

// Options say how to start a program.
type Options struct {
	// Env is added to the environment.
	Env []string
	// Args are the arguments.
	Args []string
	// Start replaces the method Start of the command, and returns the started command. dir is writable.
	Start func(cmd *exec.Cmd, dir string) (*exec.Cmd, error)
	// Output gets standard output and standard error; may be nil.
	Output io.Writer
	// Timeout bounds the handshake.
	Timeout time.Duration
	// DialOptions are added to those of the connection.
	DialOptions []grpc.DialOption
}

// Program is a running program, and the runner of go-plugin's client.
type Program struct {
	// Conn is the connection to the program.
	Conn *grpc.ClientConn

	path    string
	options Options
	tls     *tls.Config // go-plugin adds the plugin's certificate
	client  *goplugin.Client
	output  *lockedWriter
	started

	mu      sync.Mutex
	running bool
}

// started is empty until the runner has started the process.
type started struct {
	env      []string // of the protocol
	dir      string   // of the socket
	socket   string
	cmd      *exec.Cmd
	lifeline *os.File
	stdout   *os.File
	ended    chan struct{} // closed at the end of the process
}

var _ runner.Runner = (*Program)(nil)

// UnusableError reports a program that was started, but is no plugin.
type UnusableError struct {
	// NoTLS reports that the handshake succeeded, but not the connection.
	NoTLS   bool
	Message string
}

// Error returns the message.
func (e *UnusableError) Error() string { return e.Message }

// Start starts a program and connects to it. ctx bounds the start alone; Close ends the program. After an error nothing
// is left running. The error is an *UnusableError if the program was started.
func Start(ctx context.Context, path string, o Options) (*Program, error) {
	tlsConfig, certificate, err := handshake.ClientTLS()
	if err != nil {
		return nil, err
	}
	p := &Program{
		path: path, options: o, tls: tlsConfig, output: &lockedWriter{to: o.Output},
		started: started{ended: make(chan struct{})},
	}
	p.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     o.Timeout,
		Logger:           hclog.NewNullLogger(),
		SyncStdout:       p.output,
		SyncStderr:       p.output,
		GRPCDialOptions:  append(wire.DialOptions(), o.DialOptions...),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (runner.Runner, error) {
			p.env, p.dir = slices.Concat(spec.Env, []string{"PLUGIN_CLIENT_CERT=" + string(certificate)}), dir
			return p, nil
		},
	})
	defer context.AfterFunc(ctx, p.kill)()
	if p.Conn, err = p.connect(ctx); err != nil {
		p.Close()
		return nil, err
	}
	return p, nil
}

func (p *Program) connect(ctx context.Context) (*grpc.ClientConn, error) {
	protocol, err := p.client.Client()
	if p.cmd == nil { // nothing was started, which is no fault of the plugin
		return nil, err
	}
	if err != nil {
		return nil, &UnusableError{Message: err.Error()}
	}
	client, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		return nil, errors.New("go-plugin's client does not speak gRPC, although nothing else is allowed")
	}
	// go-plugin has tried to make a call by now, but the connection may not know yet.
	state := client.Conn.GetState()
	for state == connectivity.Connecting && client.Conn.WaitForStateChange(ctx, state) {
		state = client.Conn.GetState()
	}
	if state != connectivity.Ready {
		return nil, &UnusableError{NoTLS: true, Message: "no connection to the plugin with TLS, the certificate of its " +
			"handshake and an ECDSA P-256 client certificate (PLUGIN_CLIENT_CERT)"}
	}
	return client.Conn, nil
}

// Start starts the process, for go-plugin.
func (p *Program) Start(context.Context) error {
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create standard output: %w", errors.Join(err, lifelineEnd.Close(), lifeline.Close()))
	}
	p.lifeline, p.stdout = lifeline, stdout
	defer func() { // the child has its own copies by then
		_ = lifelineEnd.Close()
		_ = stdoutEnd.Close()
	}()
	cmd := exec.Command(p.path, p.options.Args...) //nolint:gosec,noctx // the caller means this program; Close ends it
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
		_ = cmd.Wait() // ProcessState has the result
		p.kill()       // its children
		p.mu.Lock()
		p.running = false // the process id may be reused from now on
		p.mu.Unlock()
		// A process outside of the group may hold the pipe open for ever.
		_ = stdout.SetReadDeadline(time.Now().Add(drainDelay))
		close(p.ended)
	}()
	return nil
}

// Stdout is where go-plugin reads the handshake.
func (p *Program) Stdout() io.ReadCloser { return p.stdout }

// Stderr is empty, because the command writes to the output itself.
func (p *Program) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Wait blocks until the end of the process.
func (p *Program) Wait(context.Context) error {
	<-p.ended
	return nil
}

// Kill kills the process group.
func (p *Program) Kill(context.Context) error {
	p.kill()
	return nil
}

// Name is for messages of go-plugin.
func (p *Program) Name() string { return p.path }

// ID is for messages of go-plugin.
func (p *Program) ID() string { return p.path }

// Diagnose explains a missing handshake.
func (p *Program) Diagnose(context.Context) string {
	if !p.Ends(drainDelay) {
		return "the program goes on without a handshake"
	}
	return "the program ended with " + p.cmd.ProcessState.String()
}

// PluginToHost checks the address of the handshake.
func (p *Program) PluginToHost(network, address string) (string, string, error) {
	p.socket = filepath.Clean(address)
	if network != "unix" || !strings.HasPrefix(p.socket, p.dir+string(filepath.Separator)) {
		return "", "", fmt.Errorf("it listens on %.100q at %.100q; expected a Unix socket in %s (%s)",
			network, address, p.dir, goplugin.EnvUnixSocketDir)
	}
	return network, p.socket, nil
}

// HostToPlugin changes nothing.
func (p *Program) HostToPlugin(network, address string) (string, string, error) {
	return network, address, nil
}

// Ends reports whether the process ends in time.
func (p *Program) Ends(within time.Duration) bool {
	select {
	case <-p.ended:
		return true
	case <-time.After(within):
		return false
	}
}

// Close ends the process in order, or else by force.
func (p *Program) Close() {
	// Kill asks the plugin without a deadline, and a plugin that hangs never answers.
	defer time.AfterFunc(killDelay, p.kill).Stop()
	p.client.Kill()
	if p.lifeline != nil {
		_ = p.lifeline.Close()
		_ = p.stdout.Close()
	}
}

// kill kills the process group.
func (p *Program) kill() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.running {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
	}
}

// lockedWriter serializes writes; to may be nil.
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
