package plugin

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiscover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for file, mode := range map[string]os.FileMode{
		"b": 0o755, "a": 0o500, ".hidden": 0o755, "..data": 0o600, "README.md": 0o644, "a.bak": 0o600, "configured": 0o600,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "lost+found"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("nothing", filepath.Join(dir, "dangling")); err != nil {
		t.Fatal(err)
	}
	files, passed, err := discover(dir, func(name string) bool { return name == "configured" })
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "configured", "dangling"}, files); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"README.md", "a.bak", "lost+found"}, passed); diff != "" {
		t.Errorf("passed over (-want +got):\n%s", diff)
	}
}

// A refused file is there to see and takes no part in anything.
func TestRefusedFile(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "echo")
	for file, mode := range map[string]os.FileMode{"README": 0o644, "configured": 0o644, "text": 0o755} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("read me"), mode); err != nil {
			t.Fatal(err)
		}
	}
	h := openHost(t, dir, func(o *Options) { o.Profiles = map[string]Profile{"configured": {}} }).run()
	h.waitFor("echo", Running)
	if got := h.log.with("these are no plugins"); len(got) != 1 {
		t.Errorf("expected one warning about the README, but found %v", got)
	}
	for file, want := range map[string]string{"configured": "is not executable (mode 0644); chmod 0755",
		"text": "is no program for this machine, and no script; build it with GOOS=linux GOARCH="} {
		if s := h.waitFor(file, Refused); !strings.Contains(s.Problem.Error(), want) {
			t.Errorf("expected %s to be refused with %q, but found %v", file, want, s.Problem)
		}
	}
	eventually(t, "the others to serve", func() bool { return h.For(echoType) != nil })
}

// replace puts another file in the place of a plugin, as `mv` and the update of a volume do: an empty text stands for
// the program that every plugin of these tests is.
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

const broken = "#!/bin/sh\nexit 3\n"

// No automatic pick-up: neither a new file nor a new content of the old one is started by a crash.
func TestRestartRunsWhatWasLoaded(t *testing.T) {
	t.Parallel()
	t.Run("another file", func(t *testing.T) {
		t.Parallel()
		h := start(t, "raw")
		h.replace("raw", broken)
		h.crash("raw")
		eventually(t, "the plugin to run again",
			func() bool { s := h.status("raw"); return s.State == Running && s.Restarted() > 0 })
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
