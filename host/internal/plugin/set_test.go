package plugin

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/test/logged"
)

// Not parallel: it counts the goroutines of the whole process.
// Rule (SECURITY.md#network): Sockets are in a directory for the host's user alone.
func TestRunLeavesNothingBehind(t *testing.T) { //nolint:paralleltest // see above
	before := runtime.NumGoroutine()
	t.Run("plugins", func(t *testing.T) { //nolint:paralleltest // see above
		h := openHost(t, pluginDir(t, "echo", "raw_waking_a", "raw_easygoing_b", "crash", "silent")).run()
		for _, file := range []string{"echo", "raw_waking_a", "raw_easygoing_b"} {
			h.waitFor(file, Running)
		}
		h.waitFor("crash", Backoff)
		h.expectSuccess("echo")
		sockets := h.settings.tempDir
		if info, err := os.Stat(sockets); err != nil || info.Mode().Perm() != 0o700 {
			t.Errorf("expected a directory of our own for sockets, but found %v (%v)", info, err)
		}
		h.end()
		if _, err := os.Stat(sockets); !os.IsNotExist(err) {
			t.Errorf("expected the directory of sockets to be gone, but found: %v", err)
		}
		for _, s := range h.Status() {
			if s.State != Stopped {
				t.Errorf("expected %s to be stopped, but found %s", s.File, s.State)
			}
		}
		if _, err := h.call(t.Context(), "echo", "item"); err == nil {
			t.Error("a call of a stopped plugin succeeds")
		}
	})
	for deadline := time.Now().Add(patience); runtime.NumGoroutine() > before; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			stacks := make([]byte, 1<<20)
			t.Fatalf("%d goroutines became %d:\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
		}
	}
}

// Not parallel: it changes the environment of the whole process.
func TestOpenWithLongPathForSockets(t *testing.T) { //nolint:paralleltest // see above
	long := filepath.Join(t.TempDir(), strings.Repeat("d", maxTempDir))
	if err := os.Mkdir(long, 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", long)
	_, err := Open(Options{Dir: t.TempDir(), Log: (&logged.Records{}).Logger()}, &listener{})
	if err == nil || !strings.Contains(err.Error(), "TMPDIR") {
		t.Errorf("expected an error that says what to do, but found: %v", err)
	}
	if rest, err := os.ReadDir(long); err != nil || len(rest) > 0 {
		t.Errorf("expected nothing to be left, but found %v (%v)", rest, err)
	}
}

// A container that is started again has the process id, and the files, of the host before.
func TestOpenRemovesWhatWasLeft(t *testing.T) {
	t.Parallel()
	temporary, err := os.MkdirTemp("", "left") //nolint:usetesting // whose paths are too long for sockets
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(temporary, "left"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, t.TempDir(), func(o *Options) { o.TempDir = temporary })
	if entries, err := os.ReadDir(temporary); err != nil || len(entries) > 0 {
		t.Errorf("expected nothing, but found %v (%v)", entries, err)
	}
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(temporary); !os.IsNotExist(err) {
		t.Errorf("expected the directory to be gone, but found: %v", err)
	}
}

func TestNoPlugins(t *testing.T) {
	t.Parallel()
	h := openHost(t, t.TempDir()).run()
	eventually(t, "the log to say so", func() bool { return len(h.log.With("there are no plugins")) == 1 })
	if err := h.Ready(); err == nil {
		t.Error("a host without plugins is ready")
	}
	if got := h.Serving(); len(got) > 0 {
		t.Errorf("expected nobody to serve, but found %v", got)
	}
}

// A plugin that does not run is there to see, with the reason, and takes no part in anything.
func TestReadyNamesEachPluginThatIsNot(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "echo", "crash", "silent")
	for file, mode := range map[string]os.FileMode{"README": 0o644, "configured": 0o644, "notes.txt": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("read me"), mode); err != nil {
			t.Fatal(err)
		}
	}
	clock := newClock()
	h := openHost(t, dir, withClock(clock), func(o *Options) {
		o.Profiles, o.Configs = map[string]Profile{"configured": {}}, map[string][]byte{"absent": []byte("{}")}
		o.StartTimeout = time.Hour // of the one that hangs
	})
	if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "plugin echo: starting") {
		t.Errorf("expected that echo is starting, but found: %v", err)
	}
	h.run()
	for file, state := range map[string]State{
		"echo": Running, "crash": Backoff, "configured": Refused, "notes.txt": Refused,
	} {
		h.waitFor(file, state)
	}
	err := h.Ready()
	if err == nil {
		t.Fatal("expected an error")
	}
	for _, want := range []string{
		"plugin crash: is no Pergola plugin", "plugin silent: starting",
		"plugin configured: refused: is not executable (mode 0644); chmod 0755",
		"plugin notes.txt: refused: is no program for this machine, and no script; build it with GOOS=linux GOARCH=",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("expected %q, but found: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "echo") {
		t.Errorf("echo is ready, but found: %v", err)
	}
	if got := h.log.With("these are no plugins"); len(got) != 1 {
		t.Errorf("expected one warning about the README, but found %v", got)
	}
	eventually(t, "the others to serve although one hangs, and the log to tell of unused configuration", func() bool {
		clock.Step(settleTime)
		return h.For(echoType) != nil && len(h.log.With("there is configuration for a plugin that is not there")) == 1
	})
}

func TestClashes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		files, refused []string
		want           string // the reason of those
		serving        []string
	}{
		// Rule (host-configuration.md#plugins): Two plugins that claim one type are both refused.
		// Rule (host-configuration.md#plugins): An item names both plugins that claim its type.
		"type": {
			[]string{"raw_a_one", "raw_b_one", "raw_c_two"}, []string{"raw_a_one", "raw_b_one"},
			`type "one" is claimed by raw_a_one and raw_b_one`, []string{"c"},
		},
		"name": {
			[]string{"raw_a_one", "raw_a_two", "raw_c_three"}, []string{"raw_a_one", "raw_a_two"},
			`name "a" is claimed by raw_a_one and raw_a_two`, []string{"c"},
		},
		"late": { // its third start succeeds, after the other has served
			[]string{"fails2_late_one", "raw_b_one", "raw_c_two"}, []string{"fails2_late_one"},
			`type "one" is already taken by raw_b_one`, []string{"b", "c"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, pluginDir(t, test.files...)).run()
			for _, file := range test.refused {
				h.expectProblem(file, Refused, test.want)
				if err := h.Ready(); err == nil || !strings.Contains(err.Error(), "plugin "+file+": refused") {
					t.Errorf("expected %s to be named, but found: %v", file, err)
				}
				if p := h.For("one"); p != nil && p.file == file {
					t.Errorf("%s serves the type", p.Name())
				}
			}
			if says := h.Unserved("one"); name == "type" && !strings.Contains(says, "raw_a_one and raw_b_one") {
				t.Errorf("a user is told %q", says)
			}
			eventually(t, "the others to serve", func() bool { return len(h.Serving()) > 0 })
			if diff := cmp.Diff(test.serving, namesOf(h.Serving())); diff != "" {
				t.Errorf("serving (-want +got):\n%s", diff)
			}
		})
	}
}
