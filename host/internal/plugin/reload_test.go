package plugin

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// replace puts another file in the place of a plugin, as `mv` and the update of a volume do: an empty text stands for the program that
// every plugin of these tests is.
func (h *host) replace(file, text string) {
	h.t.Helper()
	next := filepath.Join(h.dir, ".next")
	if text == "" {
		self, err := os.Executable()
		if err != nil {
			h.t.Fatal(err)
		}
		content, err := os.ReadFile(self)
		if err != nil {
			h.t.Fatal(err)
		}
		text = string(content) + "\n" // the same bytes would be no change
	}
	if err := os.WriteFile(next, []byte(text), 0o755); err != nil { // #nosec G306 -- a program
		h.t.Fatal(err)
	}
	if err := os.Rename(next, filepath.Join(h.dir, file)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) reload(files ...string) []Reloaded {
	h.t.Helper()
	done, err := h.Reload(h.t.Context(), files...)
	if err != nil {
		h.t.Fatal(err)
	}
	return done
}

func (h *host) remove(file string) {
	h.t.Helper()
	if err := os.Remove(filepath.Join(h.dir, file)); err != nil {
		h.t.Fatal(err)
	}
}

func (h *host) add(file string) {
	h.t.Helper()
	self, err := os.Executable()
	if err != nil {
		h.t.Fatal(err)
	}
	addPlugin(h.t, self, filepath.Join(h.dir, file))
}

const broken = "#!/bin/sh\nexit 3\n"

func TestReload(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		reason string
		files  []string
		change func(h *host)
		named  []string
		want   []Reloaded
		after  map[string]State
	}{
		"touched": {
			reason: "the same bytes with another time are no change",
			files:  []string{"raw_a_one", "raw_b_two"},
			change: func(h *host) {
				if err := os.Chtimes(filepath.Join(h.dir, "raw_a_one"), time.Time{}, time.Now().Add(time.Hour)); err != nil {
					h.t.Fatal(err)
				}
			},
			after: map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
		"nothing": {
			reason: "what has not changed goes on untouched",
			files:  []string{"raw_a_one", "raw_b_two"},
			change: func(*host) {},
			after:  map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
		"named": {
			reason: "unless it is asked for",
			files:  []string{"raw_a_one", "raw_b_two"},
			change: func(*host) {},
			named:  []string{"raw_b_two"},
			want:   []Reloaded{{File: "raw_b_two", Action: ActionRestart}},
			after:  map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
		"changed": {
			reason: "a new file is started",
			files:  []string{"raw_a_one", "raw_b_two"},
			change: func(h *host) { h.replace("raw_a_one", "") },
			want:   []Reloaded{{File: "raw_a_one", Action: ActionRestart}},
			after:  map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
		"broken": {
			reason: "the old process goes on if the new one cannot",
			files:  []string{"raw_a_one"},
			change: func(h *host) { h.replace("raw_a_one", broken) },
			want:   []Reloaded{{File: "raw_a_one", Action: ActionRestart, Err: cmpopts.AnyError}},
			after:  map[string]State{"raw_a_one": Running},
		},
		"added": {
			reason: "a file that was not there is started",
			files:  []string{"raw_b_two"},
			change: func(h *host) { h.add("raw_a_one") },
			want:   []Reloaded{{File: "raw_a_one", Action: ActionAdd}},
			after:  map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
		"added to claim what another one serves": {
			reason: "only the one that comes late is refused",
			files:  []string{"raw_b_two"},
			change: func(h *host) { h.add("raw_a_two") },
			want:   []Reloaded{{File: "raw_a_two", Action: ActionAdd, Err: cmpopts.AnyError}},
			after:  map[string]State{"raw_a_two": Refused, "raw_b_two": Running},
		},
		"removed": {
			reason: "a file that is gone is served no more",
			files:  []string{"raw_a_one", "raw_b_two"},
			change: func(h *host) { h.remove("raw_a_one") },
			want:   []Reloaded{{File: "raw_a_one", Action: ActionRemove}},
			after:  map[string]State{"raw_b_two": Running},
		},
		"clash resolved": {
			reason: "a plugin that was refused is tried again, once the other one is gone",
			files:  []string{"raw_a_one", "raw_b_one"},
			change: func(h *host) {
				h.waitFor("raw_a_one", Refused)
				h.waitFor("raw_b_one", Refused)
				h.remove("raw_a_one")
			},
			want:  []Reloaded{{File: "raw_a_one", Action: ActionRemove}, {File: "raw_b_one", Action: ActionRestart}},
			after: map[string]State{"raw_b_one": Running},
		},
		"mended": {
			reason: "a plugin that waits for its next try has not to wait",
			files:  []string{"raw_b_two"},
			change: func(h *host) {
				h.replace("raw_a_one", broken)
				if done := h.reload(); len(done) != 1 || done[0].Err == nil {
					h.t.Fatalf("expected it not to start, but found %v", done)
				}
				h.replace("raw_a_one", "")
			},
			want:  []Reloaded{{File: "raw_a_one", Action: ActionRestart}},
			after: map[string]State{"raw_a_one": Running, "raw_b_two": Running},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := openHost(t, pluginDir(t, test.files...)).run()
			for _, file := range test.files {
				eventually(t, "the first attempt", h.plugin(file).hasSettled)
			}
			eventually(t, "the claims to be settled", func() bool {
				h.Set.mu.Lock()
				defer h.Set.mu.Unlock()
				return h.claims.settled
			})
			test.change(h)
			if diff := cmp.Diff(test.want, h.reload(test.named...), cmpopts.EquateErrors()); diff != "" {
				t.Errorf("%s: done (-want +got):\n%s", test.reason, diff)
			}
			after := map[string]State{}
			for _, s := range h.Status() {
				after[s.File] = s.State
			}
			if diff := cmp.Diff(test.after, after); diff != "" {
				t.Errorf("%s: states (-want +got):\n%s", test.reason, diff)
			}
			for file, state := range test.after {
				outcome, err := h.call(t.Context(), file, "succeed")
				if state == Running && (err != nil || outcome.Succeeded == nil) {
					t.Errorf("%s: expected %s to work, but found %v (%v)", test.reason, file, outcome, err)
				}
			}
		})
	}
}

// The calls of the process that is replaced go on.
func TestReloadLetsCallsEnd(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	before := h.status("raw").Pid
	ended := h.underWay("raw", "hold")
	h.reload("raw")
	if outcome, err := h.call(t.Context(), "raw", "succeed"); err != nil || outcome.Succeeded == nil {
		t.Errorf("expected the new process to work, but found %v (%v)", outcome, err)
	}
	if s := h.status("raw"); s.Pid == before || s.Restarts[ReasonReload] != 1 {
		t.Errorf("expected another process, but found %+v", s)
	}
	if !alive(before) {
		t.Error("the old process has ended before its call")
	}
	leaveIn(t, h.dir, "go")
	if err := <-ended; err != nil {
		t.Errorf("expected the call to end with success, but found: %v", err)
	}
	eventually(t, "the old process to end", func() bool { return !alive(before) })
}

// But not for ever: after the time of the drain they are stopped and cancelled, and nobody is to blame.
func TestReloadEndsCallsAfterTheDrain(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		file, item string
		stopped    bool
	}{
		"a call that stops when it is asked to": {"echo", "stop", true},
		"a call that hears nothing":             {"raw", "hang", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := runHost(t, pluginDir(t, test.file), func(o *Options) { o.Drain, o.StopGrace = 50*time.Millisecond, 50*time.Millisecond })
			if test.stopped {
				h = runHost(t, pluginDir(t, test.file), func(o *Options) { o.Drain, o.StopGrace = 50*time.Millisecond, time.Hour })
			}
			before := h.status(test.file).Pid
			ended := h.underWay(test.file, test.item)
			h.reload(test.file)
			err := <-ended
			if test.stopped && err != nil {
				t.Errorf("expected an outcome, but found: %v", err)
			}
			if !test.stopped && (!errors.Is(err, ErrNotRunning) || errors.Is(err, ErrCrashed)) {
				t.Errorf("expected ErrNotRunning, but found: %v", err)
			}
			eventually(t, "the old process to end", func() bool { return !alive(before) })
		})
	}
}

// No automatic pick-up: neither a new file nor a new content of the old one is started by a crash.
func TestRestartRunsWhatWasLoaded(t *testing.T) {
	t.Parallel()
	t.Run("another file", func(t *testing.T) {
		t.Parallel()
		h := start(t, "raw")
		h.replace("raw", broken)
		h.crash("raw")
		eventually(t, "the plugin to run again", func() bool { s := h.status("raw"); return s.State == Running && s.Restarted() > 0 })
	})
	t.Run("another content", func(t *testing.T) {
		t.Parallel()
		dir := t.TempDir()
		script := filepath.Join(dir, "script")
		write := func(text string) {
			if err := os.WriteFile(script, []byte(text), 0o755); err != nil { // #nosec G306 -- a program
				t.Fatal(err)
			}
		}
		write("#!/bin/sh\nexit 3\n")
		h := openHost(t, dir).run()
		h.waitFor("script", Backoff)
		write("#!/bin/sh\nexit 4 # now\n")
		s := h.waitFor("script", Refused)
		if !strings.Contains(s.Problem.Error(), "was changed since it was loaded") {
			t.Errorf("expected that the change is refused, but found: %v", s.Problem)
		}
	})
}

func TestReloadOfAHostThatDoesNotRun(t *testing.T) {
	t.Parallel()
	h := openHost(t, pluginDir(t, "raw"))
	if _, err := h.Reload(t.Context()); !errors.Is(err, errNotRun) {
		t.Errorf("expected errNotRun before the start, but found: %v", err)
	}
	h.run()
	h.waitFor("raw", Running)
	h.end()
	if _, err := h.Reload(t.Context()); !errors.Is(err, errNotRun) {
		t.Errorf("expected errNotRun after the end, but found: %v", err)
	}
}

// Reloads, crashes and calls at the same time leave the plugin at work.
func TestReloadsAmongCrashes(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	ctx, cancel := context.WithCancel(t.Context())
	crashing := make(chan struct{})
	go func() {
		defer close(crashing)
		for ctx.Err() == nil {
			_, _ = h.call(ctx, "raw", "crash")
			time.Sleep(5 * time.Millisecond)
		}
	}()
	for range 3 {
		for _, r := range h.reload("raw") {
			if r.Err != nil {
				t.Errorf("reload: %v", r.Err)
			}
		}
	}
	cancel()
	<-crashing
	h.reload("raw")
	if outcome, err := h.call(t.Context(), "raw", "succeed"); err != nil || outcome.Succeeded == nil {
		t.Errorf("expected success, but found %v (%v)", outcome, err)
	}
}

// A reload that fails changes nothing: not what a crash starts again, and not that the file is still to be reloaded.
func TestFailedReloadForgetsNothing(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	before, err := h.Details()
	if err != nil {
		t.Fatal(err)
	}
	h.replace("raw", broken)
	for range 2 {
		if done := h.reload(); len(done) != 1 || done[0].Err == nil {
			t.Errorf("expected the reload to be tried and to fail, but found %v", done)
		}
	}
	after, err := h.Details()
	if err != nil {
		t.Fatal(err)
	}
	if after[0].SHA256 != before[0].SHA256 || after[0].Pid != before[0].Pid {
		t.Errorf("expected the old program to be shown, but found %+v after %+v", after, before)
	}
	h.crash("raw")
	eventually(t, "the old program to run again", func() bool { s := h.status("raw"); return s.State == Running && s.Restarted() > 0 })
}

// A process that ends while another one is being started in its place is missed at once: it takes no calls, and what nobody could start
// is started again.
func TestDeathWhileTheReplacementStarts(t *testing.T) {
	t.Parallel()
	h := runHost(t, pluginDir(t, "raw"), func(o *Options) { o.StartTimeout = 3 * time.Second })
	h.replace("raw", "#!/bin/sh\nexec sleep 300\n") // says nothing until the time for its start is over
	reloaded := make(chan []Reloaded)
	go func() {
		done, _ := h.Reload(t.Context())
		reloaded <- done
	}()
	eventually(t, "another process to be started", func() bool {
		entries, err := os.ReadDir(h.settings.tempDir)
		return err == nil && len(entries) == 2
	})
	h.crash("raw")
	eventually(t, "the loss to be noticed", func() bool { return h.status("raw").State == Starting })
	if _, err := h.call(t.Context(), "raw", "succeed"); !errors.Is(err, ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found: %v", err)
	}
	if done := <-reloaded; len(done) != 1 || done[0].Err == nil {
		t.Errorf("expected the reload to fail, but found %v", done)
	}
	eventually(t, "the old program to run again", func() bool { return h.status("raw").State == Running })
	if outcome, err := h.call(t.Context(), "raw", "succeed"); err != nil || outcome.Succeeded == nil {
		t.Errorf("expected success, but found %v (%v)", outcome, err)
	}
}

// A restart is not kept from a plugin by whoever can do no more than to set the times of its file.
func TestRestartOfATouchedFile(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_a_one")
	h := runHost(t, dir)
	if err := os.Chtimes(filepath.Join(dir, "raw_a_one"), time.Time{}, time.Now().Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	h.crash("raw_a_one")
	eventually(t, "the plugin to run again", func() bool { s := h.status("raw_a_one"); return s.State == Running && s.Restarted() > 0 })
}
