package testenv

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"time"
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
	// PodName and PodNamespace are the pod that the host takes itself to run in; both empty for none, whatever the tests run in.
	PodName, PodNamespace string
	// LogLevel defaults to info.
	LogLevel string
	// RunDir is the base of the run directory; empty for one that nobody else uses and that is removed at the end, however the host
	// ends.
	RunDir string
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
	log    *logTail
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
	if o.LogLevel != "" {
		args = append(args, "--log-level", o.LogLevel)
	}
	if o.RunDir != "" {
		args = append(args, "--run-dir", o.RunDir)
	}
	args = append(args, o.Args...)
	// A host that is killed cannot remove its temporary files itself. The path is short: sockets go there.
	temporary, err := os.MkdirTemp("", "host-")
	if err != nil {
		return nil, fmt.Errorf("create temporary directory of the host: %w", err)
	}
	h := &Host{
		cmd:    exec.Command(o.Binary, args...), //nolint:noctx // Stop and Kill end it
		log:    &logTail{sink: o.Log, address: make(chan string, 1)},
		waited: make(chan struct{}),
	}
	h.cmd.Stderr = h.log
	h.cmd.Stdout = h.log
	h.cmd.Env = append(os.Environ(), "GORACE=halt_on_error=1", "TMPDIR="+temporary,
		"MY_POD_NAME="+o.PodName, "MY_POD_NAMESPACE="+o.PodNamespace)
	h.ask = sync.OnceValue(func() error { return h.signal(syscall.SIGTERM) })
	if err := h.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start host: %w", err), os.RemoveAll(temporary))
	}
	go func() {
		defer close(h.waited)
		h.err = h.cmd.Wait()
		if err := os.RemoveAll(temporary); err != nil {
			h.err = errors.Join(h.err, err)
		}
	}()
	select {
	case address := <-h.log.address:
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
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, h.URL+"/readyz", nil)
	if err != nil {
		return fmt.Errorf("ask host whether it is ready: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return fmt.Errorf("ask host whether it is ready: %w", err)
	}
	body, err := io.ReadAll(response.Body)
	if err := errors.Join(err, response.Body.Close()); err != nil {
		return fmt.Errorf("ask host whether it is ready: %w", err)
	}
	if response.StatusCode != http.StatusOK {
		return errors.New(strings.TrimSpace(string(body)))
	}
	return nil
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

// Terminate asks the host to stop, as Kubernetes does, and waits for nothing. It asks once, however often it is called: a second signal
// would end a host that is about to end in order.
func (h *Host) Terminate() error { return h.ask() }

// HangUp asks the host to reload its plugins, and waits for nothing.
func (h *Host) HangUp() error { return h.signal(syscall.SIGHUP) }

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

// Children are the process ids of a process's children, by the base name of their program.
func Children(of int) (map[string][]int, error) {
	children := map[string][]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	for _, path := range stats {
		content, err := os.ReadFile(path)
		if err != nil {
			continue // it has ended meanwhile
		}
		var pid, parent int
		var state string
		rest := string(content[strings.LastIndexByte(string(content), ')')+1:])
		if _, err := fmt.Sscanf(rest, "%s %d", &state, &parent); err != nil || parent != of || state == "Z" {
			continue
		}
		if _, err := fmt.Sscanf(filepath.Base(filepath.Dir(path)), "%d", &pid); err != nil {
			continue
		}
		program, err := os.Readlink(filepath.Join(filepath.Dir(path), "exe"))
		if err != nil {
			continue
		}
		children[filepath.Base(program)] = append(children[filepath.Base(program)], pid)
	}
	return children, nil
}

// logTail keeps what a host logs and finds the address in it that the host listens on.
type logTail struct {
	sink    io.Writer
	address chan string

	mu    sync.Mutex
	lines strings.Builder
	found bool
}

// maxLog is how much of a log is kept, give or take half: a host may run for hours.
const maxLog = 64 << 20

var listenAddress = regexp.MustCompile(`"listenAddress":"([^"]+)"`)

func (l *logTail) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lines.Len() > maxLog {
		latest := l.lines.String()[maxLog/2:]
		l.lines.Reset()
		l.lines.WriteString(latest)
	}
	l.lines.Write(p)
	if !l.found {
		scanner := bufio.NewScanner(strings.NewReader(l.lines.String()))
		for scanner.Scan() {
			if match := listenAddress.FindStringSubmatch(scanner.Text()); match != nil {
				l.found = true
				l.address <- match[1]
				break
			}
		}
	}
	if l.sink != nil {
		return l.sink.Write(p)
	}
	return len(p), nil
}

func (l *logTail) text() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lines.String()
}
