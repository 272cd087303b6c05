package plugin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

const (
	// drainDelay is how long the end of a process waits for those who inherited its outputs.
	drainDelay = time.Second
	// maxHandshake is how long the first line of a plugin may be. It holds a certificate of less than a kilobyte.
	maxHandshake = 16 << 10
	// lifelineFile is the descriptor of the lifeline in the child.
	lifelineFile = 3
)

// environment are the variables of the host that every plugin gets. Everything else stays with the host, unless the
// operator passes it on: its environment often holds secrets.
var environment = []string{
	"PATH", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// runner runs a program for go-plugin. It is ours and not go-plugin's own so that the program is started by the
// sandbox, has its own process group, a lifeline to this process and an environment that we choose, and so that what it
// writes is read by us; see processLog.
type runner struct {
	program     *os.File
	path        string
	profile     Profile
	settings    *settings
	log         *slog.Logger
	certificate []byte // of the host
	client      *goplugin.Client
	output      *processLog
	stdout      *stdoutWriter
	streams     []io.Closer // what the output is written to
	stderr      io.Writer
	kill        context.CancelFunc // kills the process and whatever it has started, unless it has ended

	cmd       *exec.Cmd // nil before it was made
	socketDir string
	tempDir   string
	lifeline  *os.File // held open by this process, for as long as it lives
	startErr  error

	ended   chan struct{}
	exitErr error // valid once ended is closed
}

var _ gorunner.Runner = (*runner)(nil)

// launch starts a program and shakes hands. It returns when the timeout has passed or ctx has ended, at most a few
// seconds later. Nothing is left running when it fails.
func launch(ctx context.Context, program *os.File, path string, profile Profile, s *settings,
	log *slog.Logger) (*process, error) {
	tlsConfig, certificate, err := handshake.ClientTLS()
	if err != nil {
		return nil, err
	}
	life, kill := context.WithCancel(context.WithoutCancel(ctx))
	out := newProcessLog(log, s.Clock)
	// Each stream has a writer of its own, so that half a line of one does not spoil a line of another.
	stderr, stray, syncStdout, syncStderr := out.writer("stderr"), out.writer("stdout"), out.writer("stdout"),
		out.writer("stderr")
	r := &runner{
		program: program, path: path, profile: profile, settings: s, log: log, certificate: certificate, kill: kill,
		output: out, stdout: newStdoutWriter(stray), stderr: stderr,
		streams: []io.Closer{stderr, stray, syncStdout, syncStderr},
		ended:   make(chan struct{}),
	}
	r.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     s.StartTimeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: s.socketDir},
		// go-plugin logs what it does step by step; what matters of it comes back as errors.
		Logger: hclog.NewNullLogger(),
		// What the plugin prints after the handshake arrives here if it was built with go-plugin.
		SyncStdout:      syncStdout,
		SyncStderr:      syncStderr,
		GRPCDialOptions: dialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, socketDir string) (gorunner.Runner, error) {
			r.socketDir = socketDir
			if r.startErr = r.prepare(life, spec.Env); r.startErr != nil {
				r.end()
			}
			return r, r.startErr
		},
	})

	// go-plugin takes no context, and does not count the time to connect; but whatever it waits for ends with the process.
	launching, cancel := context.WithTimeout(ctx, s.StartTimeout)
	defer cancel()
	defer context.AfterFunc(launching, kill)()
	protocol, err := r.client.Client()
	if err == nil {
		err = launching.Err()
	}
	if err != nil {
		r.stop()
		return nil, r.explain(launching, err)
	}
	grpcClient, ok := protocol.(*goplugin.GRPCClient)
	if !ok { // which AllowedProtocols excludes
		r.stop()
		return nil, errors.New("is no Pergola plugin: it does not speak gRPC")
	}
	p := newProcess(grpcClient.Conn, log)
	p.runner, p.ended, p.kill, p.confinement = r, r.ended, r.kill, profile.confinement()
	return p, nil
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(handshake.WindowBytes),
		grpc.WithInitialConnWindowSize(4 * handshake.WindowBytes),
	}
}

// confinement says what keeps the process from what is not its own.
func (p Profile) confinement() string {
	if p.Confinement == sandbox.Off {
		return "off"
	}
	return sandbox.Supported().String()
}

// prepare makes the command. It lives as long as life, at most.
func (r *runner) prepare(life context.Context, protocol []string) (err error) {
	if r.tempDir, err = os.MkdirTemp(r.settings.tempDir, ""); err != nil {
		return fmt.Errorf("create its temporary directory: %w", err)
	}
	var lifelineEnd *os.File
	if lifelineEnd, r.lifeline, err = os.Pipe(); err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	r.cmd, err = r.profile.Command(life, r.program, r.path, r.environment(protocol), []*os.File{lifelineEnd}, r.tempDir,
		r.socketDir)
	if err != nil {
		return errors.Join(err, lifelineEnd.Close())
	}
	r.cmd.Cancel = r.killGroup
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	r.cmd.WaitDelay = drainDelay
	r.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// environment is the whole environment of the process: what is passed on of the host's, and then what the host sets.
func (r *runner) environment(protocol []string) []string {
	var env []string
	for _, name := range append(append([]string(nil), environment...), r.profile.Environment...) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	env = append(env, protocol...)
	return append(env,
		"HOME="+r.tempDir,
		"TMPDIR="+r.tempDir,
		"PLUGIN_CLIENT_CERT="+string(r.certificate),
		handshake.LifelineEnv+"="+strconv.Itoa(lifelineFile),
		handshake.LogLevelEnv+"="+r.settings.LogLevel.String())
}

// Start starts the program, and a goroutine that ends with it and sees to what it leaves behind.
func (r *runner) Start(context.Context) error {
	r.startErr = r.cmd.Start()
	_ = r.cmd.ExtraFiles[0].Close() // the child has its own end of the lifeline by now, or never will
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
func (r *runner) end() {
	r.kill()
	if r.lifeline != nil {
		_ = r.lifeline.Close() // nothing was written to it
	}
	r.stdout.close()
	close(r.ended)
	// Nobody waits for what is left on the disk: a plugin may leave much. go-plugin removes the directory of the socket
	// only for programs that it could start.
	for _, dir := range []string{r.socketDir, r.tempDir} {
		if err := os.RemoveAll(dir); err != nil {
			r.log.Warn("what the plugin has left behind cannot be removed", "dir", dir, "error", err.Error())
		}
	}
}

// stop ends the process in order, and by force when it does not comply.
func (r *runner) stop() {
	asked := make(chan struct{})
	go func() {
		// Kill asks over gRPC without a deadline, which a wedged process never answers; killing the group below ends it.
		defer close(asked)
		r.client.Kill()
	}()
	select {
	case <-asked:
	case <-time.After(stopGrace):
	}
	r.kill()
	<-asked
	for _, w := range r.streams {
		_ = w.Close() // it never fails
	}
}

// Wait blocks until the process has ended.
func (r *runner) Wait(context.Context) error {
	<-r.ended
	return r.exitErr
}

// Kill ends the process by force.
func (r *runner) Kill(context.Context) error {
	r.kill()
	return nil
}

// killGroup kills the started process and whatever it has started.
func (r *runner) killGroup() error { return syscall.Kill(-r.cmd.Process.Pid, syscall.SIGKILL) }

// Diagnose has nothing to add: explain knows more.
func (r *runner) Diagnose(context.Context) string { return "" }

// Stdout gives go-plugin the first line and no more. It ends with the process.
func (r *runner) Stdout() io.ReadCloser { return r.stdout.handshake }

// Stderr is empty for go-plugin; see processLog.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name is for messages of go-plugin.
func (r *runner) Name() string { return r.path }

// ID is the process id; go-plugin ends no process without one.
func (r *runner) ID() string {
	if r.cmd == nil || r.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// PluginToHost refuses to be sent anywhere but to the plugin itself: another address could be that of another plugin,
// or of a service that only the host can reach.
func (r *runner) PluginToHost(network, address string) (hostNetwork, hostAddress string, err error) {
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != filepath.Clean(r.socketDir) {
		return "", "", errElsewhere
	}
	return network, address, nil
}

// HostToPlugin changes nothing.
func (r *runner) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
}

// stdoutWriter passes the first line of a plugin's standard output to go-plugin, and what follows to the log.
type stdoutWriter struct {
	log       io.Writer
	handshake *io.PipeReader
	out       *io.PipeWriter
	line      []byte
	first     atomic.Pointer[string] // nil before the line has ended
}

func newStdoutWriter(log io.Writer) *stdoutWriter {
	w := &stdoutWriter{log: log}
	w.handshake, w.out = io.Pipe()
	return w
}

func (w *stdoutWriter) Write(p []byte) (int, error) {
	rest := p
	if w.first.Load() == nil {
		part, after, complete := bytes.Cut(p, []byte{'\n'})
		w.line = append(w.line, part[:min(len(part), maxHandshake-len(w.line))]...)
		if rest = after; complete || len(w.line) == maxHandshake {
			w.endLine()
		}
	}
	if _, err := w.log.Write(rest); err != nil {
		return 0, err
	}
	return len(p), nil
}

func (w *stdoutWriter) endLine() {
	line := strings.TrimSpace(string(w.line))
	w.first.Store(&line)
	_, _ = io.WriteString(w.out, line+"\n") // nobody reads it any more, at worst
}

// close ends what go-plugin reads. It is called after the last Write.
func (w *stdoutWriter) close() {
	if w.first.Load() == nil && len(w.line) > 0 {
		w.endLine()
	}
	_ = w.out.Close() // it never fails
}

// errElsewhere says that a plugin does not listen where it was told to.
var errElsewhere = fmt.Errorf("is refused: it must listen on a Unix socket in the directory that $%s names",
	goplugin.EnvUnixSocketDir)

// explain says in our words why a program is no plugin: go-plugin's message is made for its own use. The process has
// ended, if there ever was one.
func (r *runner) explain(launching context.Context, err error) error {
	switch {
	case r.startErr != nil:
		return fmt.Errorf("cannot be started: %w", r.startErr)
	case r.cmd == nil: // go-plugin found no place for its socket, say
		return fmt.Errorf("cannot be started: %w", err)
	case errors.Is(launching.Err(), context.DeadlineExceeded):
		return fmt.Errorf("is no Pergola plugin, or is too slow: no handshake within %s (timeouts.pluginStart)",
			r.settings.StartTimeout)
	case launching.Err() != nil:
		return launching.Err()
	}
	if line := r.stdout.first.Load(); line != nil && *line != "" {
		return explainHandshake(*line, sdkVersion(r.program), err)
	}
	said := "nothing"
	if words := r.output.lastWords(2 * r.settings.StartTimeout); len(words) > 0 { // there mostly is the mistake
		said = words[len(words)-1]
	}
	status, _ := r.cmd.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case status.ExitStatus() == sandbox.ExitNotExecutable:
		return refusal(errors.New(said))
	case status.ExitStatus() == sandbox.ExitNotStarted:
		return fmt.Errorf("cannot be started: %s", said)
	case status.Signal() == syscall.SIGKILL: // by go-plugin, which does not understand the handshake
		return errors.New("is no Pergola plugin: it closed its standard output without a handshake")
	default:
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s); what it said "+
			"last: %s",
			r.cmd.ProcessState, said)
	}
}

// explainHandshake says why a program with this first line is no plugin of this host. sdk is the version of the sdk
// that it was built with, if that is known; err is what go-plugin says.
func explainHandshake(line, sdk string, err error) error {
	parts := strings.Split(line, "|")
	version := 0
	if len(parts) >= 4 && parts[0] == strconv.Itoa(goplugin.CoreProtocolVersion) {
		version, _ = strconv.Atoi(parts[1]) // else it is no version
	}
	switch {
	case version <= 0:
		return fmt.Errorf("is no Pergola plugin: the first line on its standard output is no handshake: %s", bounded(line))
	case version != handshake.ProtocolVersion:
		return versionError(version, sdk)
	case len(parts) == 4 || parts[4] != string(goplugin.ProtocolGRPC):
		return errors.New("is no Pergola plugin: it does not serve gRPC")
	case errors.Is(err, errElsewhere):
		return errElsewhere
	default:
		reason, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return fmt.Errorf("is no Pergola plugin, or cannot be reached: %s", bounded(reason))
	}
}

func versionError(version int, sdk string) error {
	built := "an sdk of unknown version"
	if sdk != "" {
		built = "version " + cut(sdk, maxText) + " of the sdk"
	}
	advice := "run a newer host, or a plugin that was built for this one"
	if version < handshake.ProtocolVersion {
		advice = "build the plugin again with a newer sdk"
	}
	return fmt.Errorf("speaks version %d of the protocol (it was built with %s), but this host speaks version %d; %s",
		version, built, handshake.ProtocolVersion, advice)
}
