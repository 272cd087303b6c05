package plugin

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// within fails the test if f takes longer than a host may take to end its plugins.
func within(t *testing.T, limit time.Duration, what string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(limit):
		t.Fatalf("%s took more than %s", what, limit)
	}
}

func TestWhatIsNoPlugin(t *testing.T) {
	t.Parallel()
	for file, test := range map[string]struct {
		reason  string
		timeout time.Duration
		want    []string
	}{
		"exit": {"ends without an error at once", patience, []string{"ended before the handshake", "exit status 0"}},
		"felled": {"a signal ends it, as when the CPU lacks something", patience,
			[]string{"cannot run here", "signal: terminated"}},
		"mutters": {"the loader cannot run it", patience, []string{"exit status 127",
			"what it said last: libfoo.so is missing"}},
		"bereaved": {"a child of it holds its outputs", patience, []string{"exit status 3"}},
		"silent":   {"says nothing", 5 * time.Second, []string{"no handshake within 5s"}},
		// the other one must start in that time, too
		"garbage": {"says something else", patience, []string{"is no Pergola plugin", "Hello, \uFFFD I am no plugin."}},
		"unbound": {"does not listen where it says", patience,
			[]string{"must listen on a Unix socket in the directory"}},
		"raw_dies": {"ends when it is asked who it is", patience, []string{"ask the plugin who it is"}},
		"raw_deaf": {"does not answer who it is", patience, []string{"ask the plugin who it is", "DeadlineExceeded"}},
		"raw_nameless": {"says nothing about itself", patience, []string{"must be a DNS label",
			"serves no deploy item type"}},
		"raw_verbose": {"says 5 MiB about itself", patience, []string{"ask the plugin who it is",
			"received message larger than max"}},
		"raw_choosy": {"refuses its configuration", patience, []string{"a.b: is missing\nc: is wrong"}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, pluginDir(t, file, "echo"), func(o *Options) { o.StartTimeout = test.timeout })
			h.run()
			status := h.waitFor(file, Backoff)
			for _, want := range test.want {
				if !strings.Contains(status.Problem.Error(), want) {
					t.Errorf("%s: expected a problem with %q, but found: %s", test.reason, want, status.Problem)
				}
			}
			if size := len(status.Problem.Error()); size > 2*hostside.MaxMessage {
				t.Errorf("%s: the problem has %d bytes", test.reason, size)
			}
			if status.Info != nil {
				t.Errorf("%s: expected nothing to be known of it, but found %v", test.reason, status.Info)
			}
			h.waitFor("echo", Running) // the others are left alone
		})
	}
}

func TestEndIsBounded(t *testing.T) {
	t.Parallel()
	for file, test := range map[string]struct {
		reason  string
		prepare func(t *testing.T, h *host)
	}{
		"silent":   {"it is being started", func(t *testing.T, h *host) { left(t, h.dir, "started") }},
		"raw_deaf": {"it is being asked who it is", func(t *testing.T, h *host) { left(t, h.dir, "asked") }},
		"stubborn": {"it does not end when it is asked to", func(t *testing.T, h *host) { h.waitFor("stubborn", Running) }},
		"flood":    {"it writes without end", func(t *testing.T, h *host) { h.waitFor("flood", Running) }},
		"crash":    {"it is in a pause", func(t *testing.T, h *host) { h.waitFor("crash", Backoff) }},
		"raw_wedged": {"it is stopped", func(t *testing.T, h *host) {
			h.waitFor("raw_wedged", Running)
			h.signal("raw_wedged", syscall.SIGSTOP)
		}},
	} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, pluginDir(t, file), func(o *Options) { o.StartTimeout = time.Hour }).run()
			test.prepare(t, h)
			var id int
			if s := h.status(file); s.State == Running {
				id = s.Pid
			}
			within(t, 15*time.Second, "to end while "+test.reason, h.end)
			if id != 0 && alive(id) {
				t.Errorf("the process %d lives", id)
			}
			if s := h.status(file); s.State != Stopped {
				t.Errorf("expected it to be stopped, but found %s", s.State)
			}
		})
	}
}

// Nothing of a plugin runs beside its next process, or after the host: neither what is in its group and holds its
// outputs, nor what made a group or session of its own, nor an orphan without the plugin's environment.
// Rule (protocol.md#process): All processes of a plugin end with it, before the next start, in whatever group or
// session.
func TestWhatAPluginHasStartedEndsWithIt(t *testing.T) {
	t.Parallel()
	for _, file := range []string{"parent", "leader", "deserter", "daemon"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			h := start(t, file)
			child := pid(t, left(t, h.dir, "pid"))
			h.crash(file)
			next := child
			eventually(t, "another child", func() bool { next = pid(t, left(t, h.dir, "pid")); return next != child })
			if alive(child) {
				t.Error("a child of the process that has ended lives beside the next process")
			}
			h.waitFor(file, Running)
			h.end()
			if alive(next) {
				t.Error("a child lives after the end of the host")
			}
		})
	}
}

// However the host ends, its plugins end.
func TestPluginsEndWithTheHost(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Args = []string{"hostchild", filepath.Join(pluginDir(t, "echo"), "echo"), t.TempDir()}
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	plugin := pid(t, line)
	if !alive(plugin) {
		t.Fatal("the plugin is not there")
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed
	eventually(t, "the plugin to end", func() bool { return !alive(plugin) })
}

// Not parallel: it changes the environment of the whole process.
func TestPluginHasNotTheEnvironmentOfItsHost(t *testing.T) { //nolint:paralleltest // see above
	t.Setenv("AWS_SECRET_ACCESS_KEY", "very secret")
	h := start(t, "raw")
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", h.status("raw").Pid))
	if err != nil {
		t.Fatal(err)
	}
	if text := string(environment); strings.Contains(text, "secret") || !strings.Contains(text, "PERGOLA_LIFELINE_FD=") {
		t.Errorf("expected the environment of a plugin, but found: %q", text)
	}
}

// Last words need no newline, and each process has its own.
func TestLastWordsOfPlugins(t *testing.T) {
	t.Parallel()
	h := start(t, "echo", "flood_f_two")
	for i := range 2 {
		eventually(t, "the plugin to run",
			func() bool { s := h.status("echo"); return s.State == Running && s.Restarted() == i })
		if _, err := h.call(t.Context(), "echo", "exit"); !errors.Is(err, ErrCrashed) {
			t.Errorf("expected ErrCrashed, but found: %v", err)
		}
		eventually(t, "its last words", func() bool { return len(h.log.With("last words of the plugin")) == i+1 })
	}
	if words := h.log.With("last words of the plugin")[1]; !strings.Contains(fmt.Sprint(words["lines"]), "my last words") {
		t.Errorf("found %v", words)
	}
	h.expectSuccess("flood_f_two") // which writes without end
}
