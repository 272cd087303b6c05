package launch

import (
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
	"time"

	goplugin "github.com/hashicorp/go-plugin"
	gorunner "github.com/hashicorp/go-plugin/runner"

	"github.com/pergola-deploy/pergola/host/internal/plugin/sandbox"
	"github.com/pergola-deploy/pergola/proto/handshake"
)

const (
	// drainDelay bounds the wait for the outputs after the end of a process, which its children may hold open.
	drainDelay = time.Second
	// lifelineFile is the descriptor of the lifeline in the child.
	lifelineFile = 3
)

// environment names the host's variables for every plugin. The host's environment often holds secrets, so the operator
// passes on any other one explicitly.
var environment = []string{
	"PATH", "TZ", "LANG", "SSL_CERT_FILE", "SSL_CERT_DIR",
	"HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// runner runs a program for go-plugin. go-plugin's own runner has no sandbox, session, lifeline or chosen environment.
type runner struct {
	order order
	out   *outputs
	kill  context.CancelFunc // kills the process with all of its descendants

	cmd      *exec.Cmd // nil before prepare
	dir      string    // of the process
	lifeline *os.File  // open during the life of this process
	startErr error
	ended    chan struct{}
}

// order says what to run, and how.
type order struct {
	program     *Program
	profile     Profile
	logLevel    slog.Level
	certificate []byte // of the host
	log         *slog.Logger
}

var _ gorunner.Runner = (*runner)(nil)

// prepare makes the command. It lives as long as life, at most.
func (r *runner) prepare(life context.Context, protocol []string, dir string) error {
	r.dir = dir
	lifelineEnd, lifeline, err := os.Pipe()
	if err != nil {
		return fmt.Errorf("create lifeline: %w", err)
	}
	r.lifeline = lifeline
	program := r.order.program
	r.cmd, err = r.order.profile.Command(life, program.file, program.Path(), r.order.environment(protocol, dir),
		[]*os.File{lifelineEnd}, dir)
	if err != nil {
		return errors.Join(err, lifelineEnd.Close())
	}
	r.cmd.Stdout, r.cmd.Stderr = r.out.first, r.out.stderr
	r.cmd.WaitDelay = drainDelay
	return nil
}

// environment returns the whole environment of the process: the allowed variables of the host, then its settings.
func (o *order) environment(protocol []string, dir string) []string {
	var env []string
	for _, name := range slices.Concat(environment, o.profile.Environment) {
		if value, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+value)
		}
	}
	return append(append(env, protocol...),
		"HOME="+dir,
		"TMPDIR="+dir,
		"PLUGIN_CLIENT_CERT="+string(o.certificate),
		handshake.LifelineEnv+"="+strconv.Itoa(lifelineFile),
		handshake.LogLevelEnv+"="+o.logLevel.String())
}

// Start starts the program, and a goroutine which cleans up after its end.
func (r *runner) Start(context.Context) error {
	r.startErr = sandbox.Start(r.cmd)
	_ = r.cmd.ExtraFiles[0].Close() // the child has its own end of the lifeline by now, or never will
	if r.startErr != nil {
		r.end()
		return r.startErr
	}
	go func() {
		_ = r.cmd.Wait() // ProcessState has the result
		if err := sandbox.Clean(r.cmd); err != nil {
			r.order.log.Error("what the plugin has started cannot be ended", "error", err.Error())
		}
		r.end()
	}()
	return nil
}

// end releases the resources of the process.
func (r *runner) end() {
	r.kill()
	if r.lifeline != nil {
		_ = r.lifeline.Close() // nothing was written to it
	}
	_ = r.out.first.Close() // it never fails
	// The removal of many files takes long. go-plugin removes the directory, too, and would block if it found it.
	left := r.dir + ".left"
	if err := os.Rename(r.dir, left); err != nil {
		left = r.dir
	}
	close(r.ended)
	if err := os.RemoveAll(left); err != nil {
		r.order.log.Warn("leftover files of the plugin cannot be removed", "dir", left, "error", err.Error())
	}
}

// wait kills the process and waits for the end of all of its descendants, so that the next process is alone.
func (r *runner) wait() {
	r.kill()
	if r.cmd != nil {
		<-r.ended
	}
}

// Wait blocks until the process has ended.
func (r *runner) Wait(context.Context) error {
	<-r.ended
	return nil // go-plugin would only log an error
}

// Kill ends the process by force.
func (r *runner) Kill(context.Context) error {
	r.kill()
	return nil
}

// Diagnose adds nothing; see explain.
func (r *runner) Diagnose(context.Context) string { return "" }

// Stdout ends with the first line, or with the process.
func (r *runner) Stdout() io.ReadCloser { return r.out.first.reader }

// Stderr is empty for go-plugin; see processlog.Log.
func (r *runner) Stderr() io.ReadCloser { return io.NopCloser(strings.NewReader("")) }

// Name returns the path of the program, for messages of go-plugin.
func (r *runner) Name() string { return r.order.program.Path() }

// ID returns the process id. Without one go-plugin would not end the process.
func (r *runner) ID() string {
	if r.cmd == nil || r.cmd.Process == nil {
		return ""
	}
	return strconv.Itoa(r.cmd.Process.Pid)
}

// PluginToHost accepts only a socket in the plugin's own directory: another address could be that of another plugin, or
// of a service within reach of the host alone.
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

// errElsewhere reports that the plugin listens outside of its directory.
var errElsewhere = fmt.Errorf("is refused: it must listen on a Unix socket in the directory that $%s names",
	goplugin.EnvUnixSocketDir)
