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
		types, hooked         []string
		want                  string // what the error says was claimed; empty if it is fine
	}{
		"same":         {"what was locked", name, version, []string{one, two}, nil, ""},
		"order":        {"the order of types means nothing", name, version, []string{two, one, two}, nil, ""},
		"name":         {"the configuration is that of the name", "helm", version, []string{one, two}, nil, `its name is "helm", but the lock file says "manifest"`},
		"version":      {"another build", name, "1.1", []string{one, two}, nil, `its version is "1.1", but the lock file says "1.10"`},
		"long version": {"shortened, and told apart all the same", name, long, []string{one, two}, nil, `its version is "` + long[:64] + `...", but the lock file says "1.10"`},
		"more types":   {"it wants more than it had", name, version, []string{one, two, "helm"}, nil, `its types are "example.org/manifest", "example.org/yaml", "helm", but the lock file says "example.org/manifest", "example.org/yaml"`},
		"fewer types":  {"items would be left alone", name, version, []string{one}, nil, `its types are "example.org/manifest", but the lock file says "example.org/manifest", "example.org/yaml"`},
		"no types":     {"nothing at all", name, version, nil, nil, `its types are none, but the lock file says "example.org/manifest", "example.org/yaml"`},
		"hooks of others' items": {
			"they can hold up what is not the plugin's own", name, version, []string{one, two}, []string{"helm"},
			`its hooked types of others are "helm", but the lock file says none`,
		},
		"several": {"everything at once", "helm", "", []string{one, two}, nil, `its name is "helm", but the lock file says "manifest"; its version is "", but the lock file says "1.10"`},
	}
	for label, test := range tests {
		t.Run(label, func(t *testing.T) {
			t.Parallel()
			err := file.CheckInfo(lockfile.Plugin{File: manifest.File, Name: test.name, Version: test.version, Types: test.types, HookedTypes: test.hooked})
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
			if err := file.CheckInfo(manifest); err != nil {
				t.Errorf("what is done to an error shows: %v", err)
			}
		})
	}
	if err := file.CheckInfo(helm); !errors.Is(err, lockfile.ErrNotListed) {
		t.Errorf("expected a file without an entry to be refused, but found: %v", err)
	}
}

func TestCheckInfoOfHooks(t *testing.T) {
	t.Parallel()
	file, path := loaded(t, audit)
	for _, test := range []struct {
		reason        string
		types, hooked []string
		want          string // what the error says was claimed; empty if it is fine
	}{
		{"what was locked", nil, audit.HookedTypes, ""},
		{"the order of types means nothing", nil, []string{"example.org/yaml", "example.org/helm", "example.org/yaml"}, ""},
		{"a check that was meant to run does not", nil, audit.HookedTypes[:1], `its hooked types of others are "example.org/helm", but the lock file says "example.org/helm", "example.org/yaml"`},
		{"it takes over what it was to look at", audit.HookedTypes, nil, `its types are "example.org/helm", "example.org/yaml", but the lock file says none; ` +
			`its hooked types of others are none, but the lock file says "example.org/helm", "example.org/yaml"`},
	} {
		err := file.CheckInfo(lockfile.Plugin{File: audit.File, Name: audit.Name, Version: audit.Version, Types: test.types, HookedTypes: test.hooked})
		want := "says of itself what was not locked in " + path + ": " + test.want + "; lock it with `pergola plugins lock`, if that is meant"
		if test.want == "" && err != nil || test.want != "" && (err == nil || err.Error() != want) {
			t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
		}
	}
}
