package plugin

import (
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// lockedHost is a host that requires its plugins to be in a lock file.
func lockedHost(t *testing.T, dir, lock string, modify ...func(*Options)) *host {
	t.Helper()
	require := func(o *Options) { o.Verification = Verification{Mode: lockfile.Require, LockFile: lock} }
	return openHost(t, dir, append([]func(*Options){require}, modify...)...)
}

// expectMissing expects that nobody can overlook that a plugin is missing, and that the log has told so often.
func (h *host) expectMissing(file string, warnings int) {
	h.t.Helper()
	const wants = `the file is not in the plugin directory, but the lock file says that it is the plugin "hooked", whose hooks run for ` +
		`deploy items of type "test.pergola.dev/echo": these wait; put the file back, or take it out of the lock file, and reload the plugins`
	if s := h.status(file); s.State != Missing || s.Problem == nil || s.Problem.Error() != wants || s.Info != nil || s.Ready() {
		h.t.Errorf("status: expected that it is missing, but found %+v", s)
	}
	if err := h.Ready(); err == nil || err.Error() != "plugin "+file+": "+wants {
		h.t.Errorf("ready: expected that it is missing, but found: %v", err)
	}
	details, err := h.Details()
	if err != nil || !slices.ContainsFunc(details, func(d Detail) bool { return d.File == file && d.State == Missing && d.SHA256 == "" }) {
		h.t.Errorf("details: expected that it is missing, but found %+v (%v)", details, err)
	}
	told := h.log.with("plugin is missing")
	if len(told) != warnings || told[0]["level"] != "WARN" || told[0]["plugin"] != file || told[0]["error"] != wants {
		h.t.Errorf("log: expected %d warnings that it is missing, but found %v", warnings, told)
	}
}

// What the operator has locked as hooks for items of others is not passed over because its file is gone, and everybody sees why.
func TestLockedHooksOfAMissingPlugin(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_one_one", "raw_hooked_two")
	lock := lockPlugins(t, dir, asItIs)
	if err := os.Remove(filepath.Join(dir, "raw_hooked_two")); err != nil {
		t.Fatal(err)
	}
	h := lockedHost(t, dir, lock).run()
	eventually(t, "the other plugin to run", func() bool { return len(h.Serving()) == 1 && h.status("raw_one_one").State == Running })
	h.expectMissing("raw_hooked_two", 1)
	_, err := h.Hooking(echoType)[0].RunHooks(t.Context(), hook.End, nil, nil)
	if !errors.Is(err, ErrNotRunning) || !strings.HasSuffix(err.Error(),
		`has hooks for deploy items of type "test.pergola.dev/echo", but it is not in use: its file "raw_hooked_two" is not in the plugin directory`) {
		t.Errorf("expected that the file is not there, but found: %v", err)
	}
	h.reload()
	h.expectMissing("raw_hooked_two", 2)

	h.add("raw_hooked_two")
	h.reload()
	if err := h.Ready(); err != nil || h.status("raw_hooked_two").State != Running || len(h.Status()) != 2 {
		t.Errorf("expected it to be back, but found %+v (%v)", h.Status(), err)
	}
	h.remove("raw_hooked_two")
	h.reload()
	h.expectMissing("raw_hooked_two", 3)

	lockPlugins(t, dir, asItIs) // without it
	changes := h.changes.Load()
	h.reload()
	if h.changes.Load() == changes {
		t.Error("nobody was told that it is no longer missing")
	}
	if err := h.Ready(); err != nil || len(h.Status()) != 1 || len(h.Hooking(echoType)) > 0 || len(h.log.with("plugin is missing")) != 3 {
		t.Errorf("expected nobody to wait for it, but found %+v (%v)", h.Status(), err)
	}
}

func TestMissing(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		locked []string
		modify func(*Options)
		want   map[string]State
	}{
		{"no item waits for who has no hooks for others", []string{"raw_here_one", "raw_away_two"}, func(*Options) {}, map[string]State{"raw_here_one": Starting}},
		{
			"between the files that are there", []string{"raw_here_one", "raw_hooked_two"}, func(o *Options) { o.Attach = []string{"unix:///nowhere"} },
			map[string]State{"raw_here_one": Starting, "raw_hooked_two": Missing, "unix:///nowhere": Starting},
		},
		{
			"nobody asks for it", []string{"raw_here_one", "raw_hooked_two"}, func(o *Options) { o.Files = []string{"raw_here_one"} },
			map[string]State{"raw_here_one": Starting},
		},
		{
			"nobody looks at the lock file", []string{"raw_hooked_two"}, func(o *Options) { o.Verification.Mode = lockfile.Off },
			map[string]State{"raw_here_one": Starting},
		},
		{
			"it waits all the same", []string{"raw_hooked_two"}, func(o *Options) { o.Verification.Mode = lockfile.Warn },
			map[string]State{"raw_here_one": Starting, "raw_hooked_two": Missing},
		},
	} {
		lock := lockPlugins(t, pluginDir(t, test.locked...), asItIs)
		h := lockedHost(t, pluginDir(t, "raw_here_one"), lock, test.modify)
		var files []string
		got := map[string]State{}
		for _, s := range h.Status() {
			files = append(files, s.File)
			got[s.File] = s.State
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s: states (-want +got):\n%s", test.reason, diff)
		}
		if want := slices.Sorted(maps.Keys(test.want)); !slices.Equal(files, want) {
			t.Errorf("%s: expected the order %q, but found %q", test.reason, want, files)
		}
	}
}

// A plugin that is attached for a while takes the place of one that is locked under its name.
func TestNotMissingByName(t *testing.T) {
	t.Parallel()
	lock := lockPlugins(t, pluginDir(t, "raw_hooked_two"), asItIs)
	h := lockedHost(t, pluginDir(t, "raw_here_one"), lock)
	h.plugin("raw_here_one").info = &Info{Name: "hooked"}
	if got := h.status("raw_hooked_two"); got.File != "" {
		t.Errorf("expected it not to be missing, but found %+v", got)
	}
}
