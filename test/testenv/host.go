package testenv

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/procfs"
)

// HostOptions are the settings of a Host.
type HostOptions struct {
	// Binary is the pergola program. Required.
	Binary string
	// Kubeconfig and PluginDir are passed on. Required.
	Kubeconfig, PluginDir string
	// Standalone lets the host set jobs.
	Standalone bool
	// Config is the path of a HostConfiguration; empty for none.
	Config string
	// PodName and PodNamespace are the pod that the host takes itself to run in; both empty for none, whatever the
	// tests run in.
	PodName, PodNamespace string
	// Args are further arguments.
	Args []string
	// Log takes what the host logs; nil for nothing.
	Log io.Writer
}

// Host is a host process of its own.
type Host struct {
	// URL of its health and metrics.
	URL string

	cmd    *exec.Cmd
	ask    func() error // to stop, once
	log    *hostLog
	waited chan struct{} // closed when the process has ended, and err is set
	err    error
}

// StartHost starts a host and returns as soon as it listens for health checks, before it is ready. It must be stopped.
func StartHost(ctx context.Context, o HostOptions) (*Host, error) {
	args := []string{"host", "--kubeconfig", o.Kubeconfig, "--plugin-dir", o.PluginDir, "--listen-address", "127.0.0.1:0"}
	if o.Standalone {
		args = append(args, "--standalone")
	}
	if o.Config != "" {
		args = append(args, "--config", o.Config)
	}
	args = append(args, o.Args...)
	// A host that is killed cannot remove its temporary files itself. The path is short: sockets go there.
	temporary, err := os.MkdirTemp("", "host-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory of the host: %w", err)
	}
	listens := make(chan string, 1)
	h := &Host{
		cmd:    exec.Command(o.Binary, args...), //nolint:noctx // Stop and Kill end it
		log:    &hostLog{listens: listens},
		waited: make(chan struct{}),
	}
	h.cmd.Stdout = io.MultiWriter(h.log, cmp.Or(o.Log, io.Discard))
	h.cmd.Stderr = h.cmd.Stdout
	h.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1", "TMPDIR="+temporary,
		"MY_POD_NAME="+o.PodName, "MY_POD_NAMESPACE="+o.PodNamespace)
	h.ask = sync.OnceValue(func() error { return h.signal(syscall.SIGTERM) })
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start host: %w", err), os.RemoveAll(temporary))
	}
	go func() {
		defer close(h.waited)
		h.err = errors.Join(h.cmd.Wait(), os.RemoveAll(temporary))
	}()
	select {
	case address := <-listens:
		h.URL = "http://" + address
		return h, nil
	case <-h.waited:
		return nil, fmt.Errorf("host ended while it started: %w\n%s", h.err, h.log.text())
	case <-ctx.Done():
		return nil, errors.Join(fmt.Errorf("start host: %w", ctx.Err()), h.Kill())
	}
}

// Ready asks the host whether it is ready: nil, or what it says.
func (h *Host) Ready(ctx context.Context) error {
	status, body, err := h.get(ctx, "/readyz")
	if err == nil && status != http.StatusOK {
		err = errors.New(strings.TrimSpace(body))
	}
	return err
}

// Metric is the value of a counter or a gauge of the host, summed up over its labels; 0 if there is none of the name.
func (h *Host) Metric(ctx context.Context, name string) (sum float64, err error) {
	_, body, err := h.get(ctx, "/metrics")
	for line := range strings.Lines(body) {
		series, value, _ := strings.Cut(line, " ") // plugins' names, the only labels, have no spaces
		if found, _, _ := strings.Cut(series, "{"); found != name {
			continue
		}
		number, err := strconv.ParseFloat(strings.TrimSpace(value), 64)
		if err != nil {
			return 0, fmt.Errorf("read metric %s: %w", name, err)
		}
		sum += number
	}
	return sum, err
}

// get returns what the host answers at a path of its health and metrics.
func (h *Host) get(ctx context.Context, path string) (status int, body string, err error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+path, nil)
	if err != nil {
		return 0, "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, "", err
	}
	content, err := io.ReadAll(response.Body)
	return response.StatusCode, string(content), errors.Join(err, response.Body.Close())
}

// WaitReady blocks until the host is ready, or ends, or ctx does.
func (h *Host) WaitReady(ctx context.Context) error {
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := h.Ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ticker.C:
		case <-h.waited:
			return fmt.Errorf("host ended before it was ready: %w\n%s", h.err, h.log.text())
		case <-ctx.Done():
			return fmt.Errorf("host is not ready: %w", err)
		}
	}
}

// Log is what the host has logged so far.
func (h *Host) Log() string { return h.log.text() }

// Stop asks the host to stop, as Kubernetes does, and waits for it. The error says how it ended, if not with success.
func (h *Host) Stop(ctx context.Context) error {
	if err := h.Terminate(); err != nil {
		return err
	}
	select {
	case <-h.waited:
	case <-ctx.Done():
		return errors.Join(fmt.Errorf("stop host: %w\n%s", ctx.Err(), h.log.text()), h.Kill())
	}
	if h.err != nil {
		return fmt.Errorf("host ended: %w\n%s", h.err, h.log.text())
	}
	return nil
}

// Terminate asks the host to stop, as Kubernetes does, and waits for nothing. It asks once, however often it is
// called: a second signal would end a host that is about to end in order.
func (h *Host) Terminate() error { return h.ask() }

// signal sends a signal to the host, if it has not ended.
func (h *Host) signal(signal syscall.Signal) error {
	if err := h.cmd.Process.Signal(signal); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("send signal %q to host: %w", signal, err)
	}
	return nil
}

// Kill kills the host as kill -9 does, and waits for it.
func (h *Host) Kill() error {
	if err := h.signal(syscall.SIGKILL); err != nil {
		return err
	}
	<-h.waited
	return nil
}

// Pid is the host's process id.
func (h *Host) Pid() int { return h.cmd.Process.Pid }

// Children are the process ids of the host's children, by the base name of their program.
func (h *Host) Children() (map[string][]int, error) { return Children(h.Pid()) }

// Children are the process ids of a process's children, by the base name of their program. Those that have ended do
// not count.
func Children(of int) (map[string][]int, error) {
	all, err := procfs.AllProcs()
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	children := map[string][]int{}
	for _, p := range all {
		stat, gone := p.Stat()
		program, unknown := p.Executable()
		if gone == nil && stat.PPID == of && unknown == nil && program != "" {
			children[filepath.Base(program)] = append(children[filepath.Base(program)], p.PID)
		}
	}
	return children, nil
}

// Running reports whether a process runs. One that has ended and was not waited for does not.
func Running(pid int) bool {
	p, err := procfs.NewProc(pid)
	if err != nil {
		return false
	}
	stat, err := p.Stat()
	return err == nil && stat.State != "Z"
}

// hostLog keeps what a host logs and finds the address in it that the host listens on.
type hostLog struct {
	mu      sync.Mutex
	kept    []byte
	listens chan<- string // takes the address, once; nil afterwards
}

// maxLog is how much of a log is kept, give or take half: a host may run for hours.
const maxLog = 64 << 20

var listenAddress = regexp.MustCompile(`"listenAddress":"([^"]+)"`)

func (l *hostLog) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept = append(l.kept, p...); len(l.kept) > maxLog {
		l.kept = slices.Clone(l.kept[maxLog/2:])
	}
	if l.listens == nil {
		return len(p), nil
	}
	if found := listenAddress.FindSubmatch(l.kept); found != nil {
		l.listens <- string(found[1])
		l.listens = nil
	}
	return len(p), nil
}

func (l *hostLog) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return string(l.kept)
}
