package lockfile_test

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/plugin/lockfile"
)

// loaded returns a lock file with its path.
func loaded(t *testing.T, plugins ...lockfile.Plugin) (file *lockfile.File, path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "plugins.lock")
	if err := locked(t, plugins...).Write(path); err != nil {
		t.Fatal(err)
	}
	file, err := lockfile.Load(path, nil)
	if err != nil {
		t.Fatal(err)
	}
	return file, path
}

func TestCheck(t *testing.T) {
	t.Parallel()
	file, path := loaded(t, helm, manifest)
	for _, plugin := range []lockfile.Plugin{helm, manifest} {
		if err := file.Check(plugin.File, plugin.SHA256); err != nil {
			t.Errorf("expected %s to be fine, but found: %v", plugin.File, err)
		}
	}

	for _, name := range []string{"other", "", "manifest", "Helm"} { // manifest is a name, and the file of that plugin has another one
		err := file.Check(name, helm.SHA256)
		if want := "is not in the lock file " + path + "; `pergola plugins lock` adds it, if it is meant to be run"; !errors.Is(err, lockfile.ErrNotListed) || err.Error() != want {
			t.Errorf("expected %q for %q, but found: %v", want, name, err)
		}
	}
	if err := new(lockfile.File).Check("helm", helm.SHA256); !errors.Is(err, lockfile.ErrNotListed) {
		t.Errorf("expected the zero value to allow nothing, but found: %v", err)
	}

	for i := range helm.SHA256 {
		changed := helm.SHA256
		changed[i] ^= 1
		err := file.Check("helm", changed)
		var other *lockfile.ChangedError
		if !errors.As(err, &other) {
			t.Fatalf("expected a change of byte %d to be found, but found: %v", i, err)
		}
		if diff := cmp.Diff(&lockfile.ChangedError{File: "helm", Lock: path, Want: helm.SHA256, Got: changed}, other); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	want := "its sha256 is 1200000000000000000000000000000000000000000000000000000000000034, but the lock file " + path +
		" says ab01000000000000000000000000000000000000000000000000000000000000: it is not the file that was locked; " +
		"put that one back, or lock this one with `pergola plugins lock`, if it is meant to be run"
	if err := file.Check("helm", manifest.SHA256); err == nil || err.Error() != want {
		t.Errorf("expected %q, but found: %v", want, err)
	}
}

func TestCheckInfo(t *testing.T) {
	t.Parallel()
	file, path := loaded(t, manifest)
	const name, version, one, two = "manifest", "1.10", "example.org/manifest", "example.org/yaml"
	long := strings.Repeat("1", 100)
	tests := map[string]struct {
		reason, name, version string
		types                 []string
		want                  string // what the error says was claimed; empty if it is fine
	}{
		"same":         {"what was locked", name, version, []string{one, two}, ""},
		"order":        {"the order of types means nothing", name, version, []string{two, one, two}, ""},
		"name":         {"the configuration is that of the name", "helm", version, []string{one, two}, `its name is "helm", but the lock file says "manifest"`},
		"version":      {"another build", name, "1.1", []string{one, two}, `its version is "1.1", but the lock file says "1.10"`},
		"long version": {"shortened, and told apart all the same", name, long, []string{one, two}, `its version is "` + long[:64] + `...", but the lock file says "1.10"`},
		"more types":   {"it wants more than it had", name, version, []string{one, two, "helm"}, `its types are "example.org/manifest", "example.org/yaml", "helm", but the lock file says "example.org/manifest", "example.org/yaml"`},
		"fewer types":  {"items would be left alone", name, version, []string{one}, `its types are "example.org/manifest", but the lock file says "example.org/manifest", "example.org/yaml"`},
		"no types":     {"nothing at all", name, version, nil, `its types are none, but the lock file says "example.org/manifest", "example.org/yaml"`},
		"several":      {"everything at once", "helm", "", []string{one, two}, `its name is "helm", but the lock file says "manifest"; its version is "", but the lock file says "1.10"`},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			err := file.CheckInfo(manifest.File, test.name, test.version, test.types)
			if test.want == "" {
				if err != nil {
					t.Errorf("%s: %v", test.reason, err)
				}
				return
			}
			want := "says of itself what was not locked in " + path + ": " + test.want + "; lock it with `pergola plugins lock`, if that is meant"
			var claim *lockfile.ClaimError
			if !errors.As(err, &claim) || err.Error() != want {
				t.Fatalf("%s: expected %q, but found: %v", test.reason, want, err)
			}
			claim.Want.Types[0] = "changed"
			if err := file.CheckInfo(manifest.File, name, version, []string{one, two}); err != nil {
				t.Errorf("what is done to an error shows: %v", err)
			}
		})
	}
	if err := file.CheckInfo("helm", name, version, []string{one, two}); !errors.Is(err, lockfile.ErrNotListed) {
		t.Errorf("expected a file without an entry to be refused, but found: %v", err)
	}
}
