package plugin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/go-hclog"
	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"
	"google.golang.org/grpc"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
	"github.com/pergola-deploy/pergola/proto/wire"
)

const (
	// drainDelay is how long the end of a process waits for those who inherited its outputs.
	drainDelay = time.Second
	// maxHandshake is how long the first line of a plugin may be. It holds a certificate of less than a kilobyte;
	// go-plugin reads no more than 64 KiB, and blocks who writes more.
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
// sandbox, has its own session, a lifeline to this process and an environment that we choose, and so that what it
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
	stdout      io.WriteCloser
	stderr      io.WriteCloser
	kill        context.CancelFunc // kills the process and whatever it has started, unless it has ended

	cmd      *exec.Cmd // nil before it was made
	dir      string    // its own, for its socket and temporary files
	lifeline *os.File  // held open by this process, for as long as it lives
	startErr error

	handshake *io.PipeReader         // gives go-plugin the first line and no more
	firstLine atomic.Pointer[string] // nil before it has ended; empty if there was none

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
	r := &runner{
		program: program, path: path, profile: profile, settings: s, log: log, certificate: certificate, kill: kill,
		output: out, stderr: out.writer("stderr"), ended: make(chan struct{}),
	}
	stdout := out.writer("stdout")
	r.stdout = stdout
	var firstLine *io.PipeWriter
	r.handshake, firstLine = io.Pipe()
	stdout.first = func(line string) {
		line = line[:min(len(line), maxHandshake)]
		r.firstLine.Store(&line)
		if line != "" { // and so there was a process, whose output go-plugin reads
			_, _ = io.WriteString(firstLine, line+"\n")
		}
		_ = firstLine.Close() // it never fails
	}
	// Each stream has a writer of its own, so that half a line of one does not spoil a line of another.
	syncStdout, syncStderr := out.writer("stdout"), out.writer("stderr")
	r.client = goplugin.NewClient(&goplugin.ClientConfig{
		HandshakeConfig:  handshake.Config(),
		VersionedPlugins: map[int]goplugin.PluginSet{handshake.ProtocolVersion: {}},
		AllowedProtocols: []goplugin.Protocol{goplugin.ProtocolGRPC},
		TLSConfig:        tlsConfig,
		SkipHostEnv:      true,
		StartTimeout:     s.StartTimeout,
		UnixSocketConfig: &goplugin.UnixSocketConfig{TempDir: s.tempDir},
		// go-plugin logs what it does step by step; what matters of it comes back as errors.
		Logger: hclog.NewNullLogger(),
		// What the plugin prints after the handshake arrives here if it was built with go-plugin.
		SyncStdout:      syncStdout,
		SyncStderr:      syncStderr,
		GRPCDialOptions: dialOptions(),
		RunnerFunc: func(_ hclog.Logger, spec *exec.Cmd, dir string) (gorunner.Runner, error) {
			if r.startErr = r.prepare(life, spec.Env, dir); r.startErr != nil {
				r.end()
			}
			return r, r.startErr
		},
	})
	stop := func() {
		r.stop()
		for _, w := range []io.Closer{r.stdout, r.stderr, syncStdout, syncStderr} {
			_ = w.Close() // it never fails
		}
	}

	// go-plugin takes no context, and does not count the time to connect; but whatever it waits for ends with the process.
	launching, cancel := context.WithTimeout(ctx, s.StartTimeout)
	defer cancel()
	defer context.AfterFunc(launching, kill)()
	protocol, err := r.client.Client()
	if err == nil {
		err = launching.Err()
	}
	if err != nil {
		stop()
		return nil, r.explain(launching, err)
	}
	p := newProcess(protocol.(*goplugin.GRPCClient).Conn, out) //nolint:forcetypeassert // AllowedProtocols has no other
	p.cmd, p.ended, p.kill, p.stop, p.confinement = r.cmd, r.ended, r.kill, stop, profile.confinement()
	return p, nil
}

func dialOptions() []grpc.DialOption {
	return []grpc.DialOption{
		grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(wire.Codec()),
			grpc.MaxCallRecvMsgSize(handshake.MaxMessageBytes),
			grpc.MaxCallSendMsgSize(handshake.MaxMessageBytes),
		),
		grpc.WithInitialWindowSize(handshake.WindowBytes),
		grpc.WithInitialConnWindowSize(4 * handshake.WindowBytes),
	}
}

// prepare makes the command. It lives as long as life, at most.
func (r *runner) prepare(life context.Context, protocol []string, dir string) error {
	r.dir = dir
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	r.lifeline = lifeline
	r.cmd, err = r.profile.Command(life, r.program, r.path, r.environment(protocol), []*os.File{lifelineEnd}, dir)
	if err != nil {
		return errors.Join(err, lifelineEnd.Close())
	}
	r.cmd.Stdout, r.cmd.Stderr = r.stdout, r.stderr
	r.cmd.WaitDelay = drainDelay
	return nil
}

// environment is the whole environment of the process: what is passed on of the host's, and then what the host sets.
func (r *runner) environment(protocol []string) []string {
	var env []string
	for _, name := range slices.Concat(environment, r.profile.Environment) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(append(env, protocol...),
		"HOME="+r.dir,
		"TMPDIR="+r.dir,
		"PLUGIN_CLIENT_CERT="+string(r.certificate),
		handshake.LifelineEnv+"="+strconv.Itoa(lifelineFile),
		handshake.LogLevelEnv+"="+r.settings.LogLevel.String())
}

// Start starts the program, and a goroutine that ends with it and sees to what it leaves behind.
func (r *runner) Start(context.Context) error {
	r.startErr = sandbox.Start(r.cmd)
	_ = r.cmd.ExtraFiles[0].Close() // the child has its own end of the lifeline by now, or never will
	if r.startErr != nil {
		r.exitErr = r.startErr
		r.end()
		return r.startErr
	}
	go func() {
		r.exitErr = r.cmd.Wait()
		if err := sandbox.Clean(r.cmd); err != nil {
			r.log.Error("what the plugin has started cannot be ended", "error", err.Error())
		}
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
	_ = r.stdout.Close() // it never fails
	// A plugin may leave much on the disk, and nobody waits for its removal: go-plugin, which would, no longer finds it.
	left := r.dir + ".left"
	if err := os.Rename(r.dir, left); err != nil {
		left = r.dir
	}
	close(r.ended)
	if err := os.RemoveAll(left); err != nil {
		r.log.Warn("what the plugin has left behind cannot be removed", "dir", left, "error", err.Error())
	}
}

// stop ends the process in order, and by force when it does not comply.
func (r *runner) stop() {
	// Kill asks over gRPC without a deadline, which a wedged process never answers; a kill ends it.
	defer time.AfterFunc(stopGrace, r.kill).Stop()
	r.client.Kill()
	r.kill()
	if r.cmd != nil { // the next process must not run beside what this one has started
		<-r.ended
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

// Diagnose has nothing to add: explain knows more.
func (r *runner) Diagnose(context.Context) string { return "" }

// Stdout ends with the first line, or with the process.
func (r *runner) Stdout() io.ReadCloser { return r.handshake }

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
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != filepath.Clean(r.dir) {
		return "", "", errElsewhere
	}
	return network, address, nil
}

// HostToPlugin changes nothing.
func (r *runner) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
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
	if line := r.firstLine.Load(); line != nil && *line != "" {
		return explainHandshake(*line, sdkVersion(r.program), err)
	}
	said := "nothing"
	if words := r.output.lastWords(2 * r.settings.StartTimeout); len(words) > 0 { // there mostly is the mistake
		said = words[len(words)-1]
	}
	switch r.cmd.ProcessState.ExitCode() {
	case sandbox.ExitNotExecutable:
		return refusal(errors.New(said))
	case sandbox.ExitNotStarted:
		return fmt.Errorf("cannot be started: %s", said)
	default:
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s); what it said "+
			"last: %s", r.cmd.ProcessState, said)
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
		return fmt.Errorf("speaks version %d of the protocol (it was built with version %s of the sdk), but this host speaks "+
			"version %d; run a newer host, or a plugin that was built for this one", version,
			cmp.Or(cut(sdk, maxText), "unknown"), handshake.ProtocolVersion)
	case len(parts) == 4 || parts[4] != string(goplugin.ProtocolGRPC):
		return errors.New("is no Pergola plugin: it does not serve gRPC")
	case errors.Is(err, errElsewhere):
		return errElsewhere
	default:
		reason, _, _ := strings.Cut(strings.TrimSpace(err.Error()), "\n")
		return fmt.Errorf("is no Pergola plugin, or cannot be reached: %s", bounded(reason))
	}
}
