package plugin

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	"github.com/hashicorp/go-plugin/runner"

	"github.com/pergola-deploy/pergola/host/internal/plugin/program"
	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

const (
	// drainDelay is how long the end of a process waits for those who inherited its standard error.
	drainDelay = time.Second
	// maxHandshake is how long the first line of a plugin may be. It holds a certificate of less than a kilobyte.
	maxHandshake = 16 << 10
)

// environment are the variables of the host that every plugin gets. Everything else stays with the host, unless the operator passes it
// on: its environment often holds secrets.
var environment = []string{
	"PATH", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// commandRunner runs a program for go-plugin. It is ours and not go-plugin's own so that the program is started by the sandbox, has its
// own process group, a lifeline to this process and an environment that we choose, and so that what it writes is read by us:
// go-plugin's reader panics on a line such as {"@message":1}, and stops reading after a long one.
type commandRunner struct {
	program     *program.Program
	profile     Profile
	settings    *settings
	log         *slog.Logger
	certificate []byte // of the host
	stderr      io.WriteCloser
	stray       io.WriteCloser     // what is printed to standard output after the handshake
	kill        context.CancelFunc // kills the process and whatever it has started, unless it has ended

	launch    *sandbox.Launch
	socketDir string
	tempDir   string
	stdout    *os.File
	inherits  []*os.File // what the child inherits; this process closes its copies once the child has them
	lifeline  *os.File
	startErr  error
	hello     atomic.Pointer[handshakeLine] // nil before it was read

	ended   chan struct{}
	exitErr error // valid once ended is closed
}

var _ runner.Runner = (*commandRunner)(nil)

// firstExtraFile is the descriptor of the first extra file in the child.
const firstExtraFile = 3

// prepare makes the command. It lives as long as life, at most.
func (r *commandRunner) prepare(life context.Context, env []string, socketDir string) error {
	r.socketDir = socketDir
	if err := r.makeCommand(life, env); err != nil {
		r.startErr = err
		r.end()
		return err
	}
	return nil
}

func (r *commandRunner) makeCommand(life context.Context, env []string) (err error) {
	// A plugin of the same user may have taken the host's own rights away, which Landlock does not keep it from.
	if err := errors.Join(os.Chmod(r.settings.tempDir, 0o700), os.Chmod(r.settings.socketDir, 0o700)); err != nil { // #nosec G302 -- directories
		return fmt.Errorf("prepare the directory of its socket: %w", err)
	}
	if r.tempDir, err = os.MkdirTemp(r.settings.tempDir, ""); err != nil {
		return fmt.Errorf("create its temporary directory: %w", err)
	}
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	r.lifeline, r.inherits = lifeline, []*os.File{lifelineEnd}
	stdout, stdoutEnd, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create standard output: %w", err)
	}
	r.stdout, r.inherits = stdout, append(r.inherits, stdoutEnd)
	r.launch, err = r.profile.Command(life, r.program.File, r.program.Path, r.environment(env), []*os.File{lifelineEnd}, r.tempDir, r.socketDir)
	if err != nil {
		return err
	}
	cmd := r.launch.Cmd
	cmd.Cancel = r.killGroup
	cmd.Stdout = stdoutEnd
	cmd.Stderr = r.stderr
	cmd.WaitDelay = drainDelay
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	return nil
}

// environment is the whole environment of the process: what is passed on of the host's, and then what the host sets.
func (r *commandRunner) environment(protocol []string) []string {
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
		handshake.LifelineEnv+"="+strconv.Itoa(firstExtraFile),
		handshake.LogLevelEnv+"="+r.settings.logLevel)
}

// confinement says what keeps the process from what is not its own.
func (r *commandRunner) confinement() string {
	if r.profile.Confinement == sandbox.Off {
		return "off"
	}
	return sandbox.Supported().String()
}

// Start starts the program, and a goroutine that ends with it and sees to what it leaves behind.
func (r *commandRunner) Start(context.Context) error {
	r.startErr = r.launch.Start()
	for _, file := range r.inherits {
		_ = file.Close() // the child has its own copy by now, or never will
	}
	r.inherits = nil
	if r.startErr != nil {
		r.exitErr = r.startErr
		r.end()
		return r.startErr
	}
	go func() {
		r.exitErr = r.launch.Cmd.Wait()
		_ = r.killGroup() // mostly there is nobody left
		r.end()
	}()
	return nil
}

// end gives back what the process had of this one.
func (r *commandRunner) end() {
	r.kill()
	for _, file := range append(r.inherits, r.lifeline, r.stdout) {
		// Nothing was written to the lifeline. And somebody who has left the process group may hold the other end of standard output;
		// whoever reads it would do so for as long as that one lives.
		if file != nil {
			_ = file.Close()
		}
	}
	// Nobody waits for what is left on the disk: a plugin may leave much.
	close(r.ended)
	// go-plugin removes the directory of the socket only for programs that it could start.
	for _, dir := range []string{r.socketDir, r.tempDir} {
		if err := os.RemoveAll(dir); err != nil {
			r.log.Warn("what the plugin has left behind cannot be removed", "dir", dir, "error", err.Error())
		}
	}
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
	return syscall.Kill(-r.launch.Cmd.Process.Pid, syscall.SIGKILL)
}

// Diagnose has nothing to add: startError knows more.
func (r *commandRunner) Diagnose(context.Context) string { return "" }

// Stdout gives go-plugin the first line and no more. It ends with the process.
func (r *commandRunner) Stdout() io.ReadCloser {
	return &firstLine{from: bufio.NewReaderSize(r.stdout, maxHandshake), found: &r.hello, rest: r.stray, ended: r.ended}
}

// Stderr is empty for go-plugin; see commandRunner.
func (r *commandRunner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

func (r *commandRunner) Name() string { return r.program.Path }

func (r *commandRunner) ID() string {
	if r.launch == nil || r.launch.Cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(r.launch.Cmd.Process.Pid)
}

// PluginToHost refuses to be sent anywhere but to the plugin itself: another address could be that of another plugin, or of a service
// that only the host can reach.
func (r *commandRunner) PluginToHost(network, address string) (hostNetwork, hostAddress string, err error) {
	if network != "unix" || filepath.Dir(filepath.Clean(address)) != filepath.Clean(r.socketDir) {
		return "", "", errElsewhere
	}
	return network, address, nil
}

func (r *commandRunner) HostToPlugin(network, address string) (pluginNetwork, pluginAddress string, err error) {
	return network, address, nil
}

// errElsewhere says that a plugin does not listen where it was told to.
var errElsewhere = fmt.Errorf("is refused: it must listen on a Unix socket in the directory that $%s names", goplugin.EnvUnixSocketDir)

// firstLine reads a line from a plugin's standard output, and then passes the rest on, wherever it leads.
type firstLine struct {
	from  *bufio.Reader
	found *atomic.Pointer[handshakeLine]
	rest  io.Writer
	ended <-chan struct{}

	once sync.Once
	line *strings.Reader
	err  error
}

// Read gives the line, and then blocks until the process ends, as reading from it would.
func (f *firstLine) Read(p []byte) (int, error) {
	f.once.Do(f.readLine)
	if n, err := f.line.Read(p); err == nil || f.err != nil {
		return n, f.err
	}
	_, _ = io.Copy(f.rest, f.from) // until the process has ended, and with it what it says
	return 0, io.EOF
}

func (f *firstLine) readLine() {
	line, err := f.from.ReadSlice('\n')
	if err != nil && len(line) == 0 {
		f.err = io.EOF
	}
	text := strings.TrimRight(string(line), "\r\n") + "\n"
	hello := parseHandshake(text)
	f.found.Store(&hello)
	f.line = strings.NewReader(text)
}

func (f *firstLine) Close() error { return nil }

// startError says in our words why a program is no plugin: go-plugin's message is made for its own use. The process has ended,
// if there ever was one.
// said are the last lines that it wrote: a mistake of its author mostly is in there.
func (r *commandRunner) startError(launching context.Context, err error, said []string) error {
	var notStarted *sandbox.StartError
	switch {
	case errors.As(r.startErr, &notStarted):
		return fmt.Errorf("cannot be started: %w", notStarted)
	case r.startErr != nil:
		return fmt.Errorf("cannot be started: %w", r.startErr)
	case r.launch == nil: // go-plugin found no place for its socket, say
		return fmt.Errorf("cannot be started: %w", err)
	case errors.Is(launching.Err(), context.DeadlineExceeded):
		return fmt.Errorf("is no Pergola plugin, or is too slow: no handshake within %s (timeouts.pluginStart)", r.settings.startTimeout)
	case launching.Err() != nil:
		return launching.Err()
	}
	hello := handshakeLine{}
	if found := r.hello.Load(); found != nil {
		hello = *found
	}
	if hello.text == "" && !wasKilled(r.launch.Cmd.ProcessState) {
		last := "nothing"
		if len(said) > 0 {
			last = cut(said[len(said)-1], maxText)
		}
		return fmt.Errorf("is no Pergola plugin, or cannot run here: it ended before the handshake (%s); what it said last: %s", r.launch.Cmd.ProcessState, last)
	}
	return hello.explain(r.program.SDKVersion(), err)
}

// wasKilled tells whether a process was killed, as go-plugin does with those whose handshake it does not understand.
func wasKilled(state *os.ProcessState) bool {
	status, ok := state.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGKILL
}
