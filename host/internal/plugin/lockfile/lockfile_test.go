package lockfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

var (
	helm     = lockfile.Plugin{File: "helm", Name: "helm", Version: "v1.2.3", Types: []string{"example.org/helm"}, SHA256: [32]byte{0xab, 1}}
	manifest = lockfile.Plugin{
		File: "pergola-manifest", Name: "manifest", Version: "1.10",
		Types: []string{"example.org/manifest", "example.org/yaml"}, SHA256: [32]byte{0x12, 31: 0x34},
	}
	// audit brings nothing but hooks, and mixed hooks for its own items and for those of helm.
	audit = lockfile.Plugin{File: "audit", Name: "audit", Version: "v1", HookedTypes: []string{"example.org/helm", "example.org/yaml"}}
	mixed = lockfile.Plugin{File: "mixed", Name: "mixed", Version: "v1", Types: []string{"example.org/mixed"}, HookedTypes: []string{"example.org/helm"}}
)

const goldenHooks = `- file: "audit"
  name: "audit"
  version: "v1"
  types: []
  hookedTypes:
  - "example.org/helm"
  - "example.org/yaml"
  sha256: "0000000000000000000000000000000000000000000000000000000000000000"
- file: "mixed"
  name: "mixed"
  version: "v1"
  types:
  - "example.org/mixed"
  hookedTypes:
  - "example.org/helm"
  sha256: "0000000000000000000000000000000000000000000000000000000000000000"
`

const golden = `# The plugins that a host may run. ` + "`pergola plugins lock`" + ` wrote this and brings it up to date; a signature ends with any change.
apiVersion: host.pergola.dev/v1alpha1
kind: PluginLock
plugins:
- file: "helm"
  name: "helm"
  version: "v1.2.3"
  types:
  - "example.org/helm"
  sha256: "ab01000000000000000000000000000000000000000000000000000000000000"
- file: "pergola-manifest"
  name: "manifest"
  version: "1.10"
  types:
  - "example.org/manifest"
  - "example.org/yaml"
  sha256: "1200000000000000000000000000000000000000000000000000000000000034"
`

// locked makes a lock file of plugins that go together.
func locked(t testing.TB, plugins ...lockfile.Plugin) *lockfile.File {
	t.Helper()
	file, err := lockfile.New(plugins)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

func TestMarshal(t *testing.T) {
	t.Parallel()
	turned := manifest
	turned.Types = []string{"example.org/yaml", "example.org/manifest"}
	if diff := cmp.Diff(golden, string(locked(t, turned, helm).Marshal())); diff != "" {
		t.Errorf("the order that they come in shows (-want +got):\n%s", diff)
	}
	if turned.Types[0] != "example.org/yaml" {
		t.Error("the caller's types were sorted")
	}
	none := strings.Split(golden, "plugins:\n")[0] + "plugins: []\n"
	for name, file := range map[string]*lockfile.File{"no plugin": locked(t), "zero value": {}} {
		if diff := cmp.Diff(none, string(file.Marshal())); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

func TestParse(t *testing.T) {
	t.Parallel()
	file, err := lockfile.Parse("plugins.lock", []byte(golden))
	if err != nil {
		t.Fatal(err)
	}
	want := []lockfile.Plugin{helm, manifest}
	got := file.Plugins()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	got[0].File, got[1].Types[0] = "changed", "changed"
	if diff := cmp.Diff(want, file.Plugins()); diff != "" {
		t.Errorf("what the caller does to its plugins shows (-want +got):\n%s", diff)
	}
}

func TestHooks(t *testing.T) {
	t.Parallel()
	text := strings.Split(golden, "- file")[0] + goldenHooks
	turned := audit
	turned.HookedTypes = []string{"example.org/yaml", "example.org/helm"}
	if diff := cmp.Diff(text, string(locked(t, mixed, turned).Marshal())); diff != "" {
		t.Errorf("written (-want +got):\n%s", diff)
	}
	file, err := lockfile.Parse("plugins.lock", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	want := []lockfile.Plugin{audit, mixed}
	got := file.Plugins()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("read (-want +got):\n%s", diff)
	}
	got[0].HookedTypes[0] = "changed"
	if diff := cmp.Diff(want, file.Plugins()); diff != "" {
		t.Errorf("what the caller does to its plugins shows (-want +got):\n%s", diff)
	}
}

// Whatever can be locked is read again as it was written.
func TestRoundTrip(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		plugins := somePlugins(t)
		file, err := lockfile.New(plugins)
		if err != nil {
			t.Fatal(err)
		}
		text := file.Marshal()
		read, err := lockfile.Parse("plugins.lock", text)
		if err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
		if diff := cmp.Diff(file.Plugins(), read.Plugins()); diff != "" {
			t.Fatalf("(-written +read):\n%s", diff)
		}
		if again := read.Marshal(); !bytes.Equal(text, again) {
			t.Fatalf("the same plugins, but other bytes:\n%s\n%s", text, again)
		}
		for _, p := range plugins {
			if err := errors.Join(read.Check(p.File, p.SHA256), read.CheckInfo(p)); err != nil {
				t.Fatalf("%q is refused: %v", p.File, err)
			}
		}
	})
}

// somePlugins draws plugins that go together in one lock file, with texts of all kinds.
func somePlugins(t *rapid.T) []lockfile.Plugin {
	text := rapid.OneOf(
		rapid.StringN(1, 60, 253),
		rapid.SampledFrom([]string{"no", "~", "1.10", "0x10", "2026-01-01", "'", `"`, "- a", "# a", "\u0085", "\u2028", "\ufeff", "\x00", "\x7f", "🌹", `\`, "a\nb: c"}),
	)
	file := text.Filter(func(s string) bool { return !strings.HasPrefix(s, ".") && !strings.ContainsAny(s, "/\x00") })
	files := rapid.SliceOfNDistinct(file, 0, 5, rapid.ID).Draw(t, "files")
	names := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z0-9]([-a-z0-9]{0,8}[a-z0-9])?`), len(files), len(files), rapid.ID).Draw(t, "names")
	types := rapid.SliceOfNDistinct(text, len(files), 3*len(files), rapid.ID).Draw(t, "types")
	plugins := make([]lockfile.Plugin, len(files))
	for i := range plugins {
		plugins[i] = lockfile.Plugin{
			File: files[i], Name: names[i],
			Version: rapid.OneOf(text, rapid.Just("")).Draw(t, "version"),
			SHA256:  [32]byte(rapid.SliceOfN(rapid.Byte(), 32, 32).Draw(t, "sum")),
		}
		for j := i; j < len(types); j += len(files) { // each has one at least
			plugins[i].Types = append(plugins[i].Types, types[j])
		}
		foreign := text.Filter(func(s string) bool { return !slices.Contains(plugins[i].Types, s) })
		plugins[i].HookedTypes = rapid.SliceOfNDistinct(foreign, 0, 3, rapid.ID).Draw(t, "hooked types")
		if len(plugins[i].HookedTypes) > 0 && rapid.Bool().Draw(t, "nothing but hooks") {
			plugins[i].Types = nil
		}
	}
	return plugins
}

func FuzzParse(f *testing.F) {
	for _, text := range []string{
		golden, golden + goldenHooks, "", "null", "[]", "plugins: [*a]", "a: &a [*a]", "{", "---\n---\n", "kind: Other", "<<: {kind: PluginLock}", "!!map {}",
		strings.Replace(golden, `"1.10"`, "1.10", 1), strings.ReplaceAll(golden, "helm", "manifest"), strings.Replace(golden, "sha256", "sha", 1),
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := lockfile.Parse("plugins.lock", text)
		var wrong *lockfile.Error
		if err != nil {
			if !errors.As(err, &wrong) || len(wrong.Problems) == 0 || file != nil {
				t.Errorf("expected an Error with problems, but found %#v", err)
			}
			return
		}
		again, err := lockfile.Parse("plugins.lock", file.Marshal())
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(file.Plugins(), again.Plugins()); diff != "" {
			t.Errorf("(-read +read again):\n%s", diff)
		}
	})
}

func TestWrite(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins.lock")
	for _, plugins := range [][]lockfile.Plugin{{helm}, {helm, manifest}} { // a new file, and one that is brought up to date
		if err := locked(t, plugins...).Write(path); err != nil {
			t.Fatal(err)
		}
		file, err := lockfile.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(plugins, file.Plugins()); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o644 {
		t.Errorf("expected a host that runs as somebody else to read it, but found mode %s", info.Mode())
	}
	if got := names(t, dir); !slices.Equal(got, []string{"plugins.lock"}) {
		t.Errorf("expected nothing else to be left, but found %q", got)
	}
}

func TestWriteFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "plugins.lock")
	if err := os.Mkdir(path, 0o755); err != nil { // which no file can take the place of
		t.Fatal(err)
	}
	if err := locked(t, helm).Write(path); err == nil || !strings.Contains(err.Error(), path) {
		t.Errorf("expected an error that names %s, but found: %v", path, err)
	}
	if got := names(t, dir); !slices.Equal(got, []string{"plugins.lock"}) {
		t.Errorf("expected nothing else to be left, but found %q", got)
	}
	if err := locked(t, helm).Write(filepath.Join(dir, "missing", "plugins.lock")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("expected the directory to be missing, but found: %v", err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestMode(t *testing.T) {
	t.Parallel()
	tests := map[lockfile.Mode]struct {
		reason          string
		checks, refuses bool
	}{
		lockfile.Require: {"only what is locked is run", true, true},
		lockfile.Warn:    {"everything is run, and an operator hears of it", true, false},
		lockfile.Off:     {"nobody looks", false, false},
		"":               {"whoever forgets it is safe", true, true},
		"Warn":           {"a slip is safe", true, true},
	}
	for mode, test := range tests {
		if mode.Checks() != test.checks || mode.Refuses() != test.refuses {
			t.Errorf("%s: %q checks %t and refuses %t", test.reason, mode, mode.Checks(), mode.Refuses())
		}
	}
}
