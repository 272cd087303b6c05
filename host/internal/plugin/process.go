package plugin

import (
	"context"
	"errors"
	"fmt"
	"io"
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
}

// launch starts the program and shakes hands. It returns within the timeout. Nothing is left running when it fails.
func launch(path, socketDir, logLevel string, timeout time.Duration, stderr io.Writer) (*process, error) {
	r := &commandRunner{path: path, stderr: stderr, ended: make(chan struct{})}
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
		SyncStdout: stderr,
		SyncStderr: stderr,
		GRPCDialOptions: []grpc.DialOption{grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		)},
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, _ string) (runner.Runner, error) {
			return r, r.prepare(spec.Env, logLevel)
		},
	})
	p := &process{plugin: client, runner: r}
	protocol, err := client.Client()
	if err != nil {
		p.stop()
		return nil, startError(r, err)
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

// startError says in our words why a program is no plugin: go-plugin's message is made for its own use. The process has ended.
func startError(r *commandRunner, err error) error {
	switch {
	case r.startErr != nil:
		return fmt.Errorf("cannot be started: %w", r.startErr)
	case r.cmd.ProcessState.Exited():
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s)", r.cmd.ProcessState)
	default:
		return fmt.Errorf("is no Pergola plugin, or speaks another protocol than version %d: %s", handshake.ProtocolVersion, firstLine(err.Error()))
	}
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
}

// commandRunner runs a program for go-plugin. It is ours and not go-plugin's own so that the program has its own process
// group, a lifeline to this process and an environment that we choose, and so that its standard error is read by us:
// go-plugin's reader panics on a line such as {"@message":1}.
type commandRunner struct {
	path   string
	stderr io.Writer

	cmd      *exec.Cmd
	stdout   *os.File
	inherits []*os.File // what the child inherits; this process closes its copies once the child has them
	lifeline *os.File
	startErr error

	ended   chan struct{}
	exitErr error // valid once ended is closed
}

var _ runner.Runner = (*commandRunner)(nil)

// firstExtraFile is the descriptor of exec.Cmd.ExtraFiles[0] in the child.
const firstExtraFile = 3

func (r *commandRunner) prepare(env []string, logLevel string) error {
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		r.startErr = err
		return fmt.Errorf("create lifeline: %w", err)
	}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		r.startErr = err
		return errors.Join(fmt.Errorf("create standard output: %w", err), lifelineEnd.Close(), lifeline.Close())
	}
	r.lifeline, r.stdout, r.inherits = lifeline, stdout, []*os.File{lifelineEnd, stdoutEnd}
	r.cmd = exec.Command(r.path) //nolint:gosec,noctx // the operator put it there; the supervisor ends it
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
		r.closeAll()
		return r.startErr
	}
	go func() {
		r.exitErr = r.cmd.Wait()
		r.killGroup()
		r.closeAll()
	}()
	return nil
}

func (r *commandRunner) closeAll() {
	_ = r.lifeline.Close() // nothing was written to it
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

// kill kills the process and whatever it has started, unless it has ended.
func (r *commandRunner) kill() {
	if !r.hasEnded() {
		r.killGroup()
	}
}

func (r *commandRunner) killGroup() {
	if r.cmd != nil && r.cmd.Process != nil {
		// The only error is that nobody is left to kill.
		_ = syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL)
	}
}

func (r *commandRunner) hasEnded() bool {
	select {
	case <-r.ended:
		return true
	default:
		return false
	}
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
