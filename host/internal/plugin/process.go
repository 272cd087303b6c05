package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

const (
	// stopGrace is how long a process may take to end after it was asked to; then its whole group is killed.
	stopGrace = 3 * time.Second
	// drainDelay is how long the end of a process waits for those who inherited its standard error.
	drainDelay = time.Second
)

// environment are the variables of the host that a plugin gets. Everything else stays with the host: its environment often
// holds secrets.
var environment = []string{
	"PATH", "HOME", "TMPDIR", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// process is one run of a plugin.
type process struct {
	client deployerv1.DeployerServiceClient
	plugin *goplugin.Client
	runner *commandRunner
	// output are its streams. Each has a writer of its own, so that half a line of one does not spoil a line of another.
	output []io.Closer
}

// launch starts the program and shakes hands. It returns when the timeout has passed or ctx has ended, at most a few seconds
// later. Nothing is left running when it fails.
func launch(ctx context.Context, path, socketDir, logLevel string, timeout time.Duration, log *slog.Logger) (*process, error) {
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	r := &commandRunner{path: path, stderr: &logWriter{log: log}, kill: kill, ended: make(chan struct{})}
	syncStdout, syncStderr := &logWriter{log: log}, &logWriter{log: log}
	client := goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		AutoMTLS:         true,
		SkipHostEnv:      true,
		StartTimeout:     timeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: socketDir},
		// go-plugin logs what it does step by step; what matters of it comes back as errors.
		Logger: hclog.NewNullLogger(),
		// Stray prints to standard output after the handshake arrive here.
		SyncStdout: syncStdout,
		SyncStderr: syncStderr,
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		)},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, ownSocketDir string) (runner.Runner, error) {
			return r, r.prepare(life, spec.Env, logLevel, ownSocketDir)
		},
	})
	p := &process{plugin: client, runner: r, output: []io.Closer{r.stderr, syncStdout, syncStderr}}

	// go-plugin takes no context, and does not count the time to connect; but whatever it waits for ends with the process.
	launching, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	defer context.AfterFunc(launching, kill)()
	protocol, err := client.Client()
	if err == nil {
		err = launching.Err()
	}
	if err != nil {
		p.stop()
		return nil, r.startError(launching, timeout, err)
	}
	// AllowedProtocols leaves nothing but gRPC.
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok {
		p.stop()
		return nil, errors.New("is no Pergola plugin: it does not speak gRPC")
	}
	p.client = deployerv1.NewDeployerServiceClient(grpcClient.Conn)
	return p, nil
}

// startError says in our words why a program is no plugin: go-plugin's message is made for its own use. The process has ended,
// if there ever was one.
func (r *commandRunner) startError(launching context.Context, timeout time.Duration, err error) error {
	switch {
	case r.startErr != nil:
		return fmt.Errorf("cannot be started: %w", r.startErr)
	case r.cmd == nil: // go-plugin found no place for its socket, say
		return fmt.Errorf("cannot be started: %w", err)
	case errors.Is(launching.Err(), context.DeadlineExceeded):
		return fmt.Errorf("is no Pergola plugin, or is too slow: no handshake within %s", timeout)
	case launching.Err() != nil:
		return launching.Err()
	case !wasKilled(r.cmd.ProcessState):
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s)", r.cmd.ProcessState)
	default:
		return fmt.Errorf("is no Pergola plugin, or speaks another protocol than version %d: %s",
			handshake.ProtocolVersion, bounded(firstLine(err.Error())))
	}
}

// wasKilled tells whether a process was killed, as go-plugin does with those whose handshake it does not understand.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return line
}

// ended is closed when the process has ended.
func (p *process) ended() <-chan struct{} { return p.runner.ended }

// stop ends the process in order, and by force when it does not comply. It blocks for a bounded time.
func (p *process) stop() {
	asked := make(chan struct{})
	go func() {
		// Kill asks over gRPC without a deadline, which a wedged process never answers; killing the group below ends it.
		defer close(asked)
		p.plugin.Kill()
	}()
	select {
	case <-asked:
	case <-time.After(stopGrace):
	}
	p.runner.kill()
	<-asked
	for _, w := range p.output {
		_ = w.Close() // it never fails
	}
}

// commandRunner runs a program for go-plugin. It is ours and not go-plugin's own so that the program has its own process
// group, a lifeline to this process and an environment that we choose, and so that its standard error is read by us:
// go-plugin's reader panics on a line such as {"@message":1}.
type commandRunner struct {
	path   string
	stderr io.WriteCloser
	kill   context.CancelFunc // kills the process and whatever it has started, unless it has ended

	cmd       *exec.Cmd
	socketDir string
	stdout    *os.File
	inherits  []*os.File // what the child inherits; this process closes its copies once the child has them
	lifeline  *os.File
	startErr  error

	ended   chan struct{}
	exitErr error // valid once ended is closed
}

var _ runner.Runner = (*commandRunner)(nil)

// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
const firstExtraFile = 3

// prepare makes the command. It lives as long as life, at most.
func (r *commandRunner) prepare(life context.Context, env []string, logLevel, socketDir string) error {
	r.socketDir = socketDir
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		r.startErr = fmt.Errorf("create lifeline: %w", err)
		r.end()
		return r.startErr
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		r.startErr = errors.Join(fmt.Errorf("create standard output: %w", err), lifelineEnd.Close(), lifeline.Close())
		r.end()
		return r.startErr
	}
	r.lifeline, r.stdout, r.inherits = lifeline, stdout, []*os.File{lifelineEnd, stdoutEnd}
	r.cmd = exec.CommandContext(life, r.path) //nolint:gosec // the operator put it there
	r.cmd.Cancel = r.killGroup
	r.cmd.ExtraFiles = []*os.File{lifelineEnd}
	r.cmd.Stdout = stdoutEnd
	r.cmd.Stderr = r.stderr
	r.cmd.Env = append(allowedEnvironment(), env...)
	r.cmd.Env = append(r.cmd.Env,
		fmt.Sprintf("%s=%d", handshake.LifelineEnv, firstExtraFile),
		fmt.Sprintf("%s=%s", handshake.LogLevelEnv, logLevel))
	r.cmd.WaitDelay = drainDelay
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	return nil
}

func allowedEnvironment() []string {
	var env []string
	for _, name := range environment {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// Start starts the program, and a goroutine that ends with it and sees to what it leaves behind.
func (r *commandRunner) Start(context.Context) error {
	r.startErr = r.cmd.Start()
	for _, file := range r.inherits {
		_ = file.Close() // the child has its own copy by now, or never will
	}
	if r.startErr != nil {
		r.exitErr = r.startErr
		r.end()
		return r.startErr
	}
	go func() {
		r.exitErr = r.cmd.Wait()
		_ = r.killGroup() // mostly there is nobody left
		r.end()
	}()
	return nil
}

// end gives back what the process had of this one.
func (r *commandRunner) end() {
	r.kill()
	_ = r.lifeline.Close() // nothing was written to it
	// Somebody who has left the process group may hold the other end; go-plugin would read for as long as that one lives.
	_ = r.stdout.Close()
	// go-plugin removes it only for programs that it could start.
	_ = os.RemoveAll(r.socketDir)
	close(r.ended)
}

func (r *commandRunner) Wait(context.Context) error {
	<-r.ended
	return r.exitErr
}

func (r *commandRunner) Kill(context.Context) error {
	r.kill()
	return nil
}

// killGroup kills the started process and whatever it has started.
func (r *commandRunner) killGroup() error {
	return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
}

// Diagnose has nothing to add: startError knows more.
func (r *commandRunner) Diagnose(context.Context) string { return "" }

func (r *commandRunner) Stdout() io.ReadCloser { return r.stdout }

// Stderr is empty for go-plugin; see commandRunner.
func (r *commandRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (r *commandRunner) Name() string { return r.path }

func (r *commandRunner) ID() string {
	if r.cmd == nil || r.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

func (r *commandRunner) PluginToHost(network, address string) (hostNetwork, hostAddress string, err error) {
	return network, address, nil
}

func (r *commandRunner) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
}
