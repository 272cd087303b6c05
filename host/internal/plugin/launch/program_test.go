package launch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// Each kind of file that must not be run, and what is said about it.
func TestOpenProgram(t *testing.T) {
	t.Parallel()
	const script = "#!/bin/sh\nexec true\n"
	elsewhere := t.TempDir()
	write := func(t *testing.T, path string, mode uint32) {
		t.Helper()
		if err := os.WriteFile(path, []byte(script), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := syscall.Chmod(path, mode); err != nil { // whatever the umask is
			t.Fatal(err)
		}
	}
	link := func(t *testing.T, target, path string) {
		t.Helper()
		if err := os.Symlink(target, path); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(elsewhere, "program"), 0o755)
	dir := t.TempDir()
	for name, test := range map[string]struct {
		reason string
		make   func(t *testing.T, path string)
		want   string // in the refusal; empty if it may be run
	}{
		"program": {"as in an image", func(t *testing.T, path string) { write(t, path, 0o555) }, ""},
		"volume": {"this is how mounted ConfigMaps look", func(t *testing.T, path string) {
			if err := os.Mkdir(filepath.Join(dir, "..2026"), 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(dir, "..2026", "volume"), 0o755)
			link(t, "..2026", filepath.Join(dir, "..data"))
			link(t, "..data/volume", path)
		}, ""},
		"link-out": {
			"what lies elsewhere is not under the control of who controls the directory",
			func(t *testing.T, path string) {
				way, err := filepath.Rel(dir, filepath.Join(elsewhere, "program"))
				if err != nil {
					t.Fatal(err)
				}
				link(t, way, path)
			},
			"it is a link to ../",
		},
		"link-absolute": {
			"nobody can say whether it stays inside",
			func(t *testing.T, path string) { link(t, filepath.Join(elsewhere, "program"), path) },
			"a relative path within the plugin directory",
		},
		"link-dangling": {"it leads nowhere", func(t *testing.T, path string) { link(t, "missing", path) },
			"cannot be read: it is a link to missing"},
		"missing": {"it was there when the directory was read", func(*testing.T, string) {}, "cannot be read"},
		"dir": {"plugins lie directly in the directory", func(t *testing.T, path string) {
			if err := os.Mkdir(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "is no regular file"},
		"pipe": {"nobody waits for a writer", func(t *testing.T, path string) {
			if err := syscall.Mkfifo(path, 0o755); err != nil {
				t.Fatal(err)
			}
		}, "is no regular file"},
	} {
		t.Run(name, func(t *testing.T) {
			test.make(t, filepath.Join(dir, name))
			file, err := openProgram(dir, name)
			if err == nil {
				_ = file.Close()
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}

// Rule (SECURITY.md#plugins): A file is not run if others can write it.
func TestCheckFile(t *testing.T) {
	t.Parallel()
	self := os.Getuid()
	for name, test := range map[string]struct {
		reason string
		mode   uint32
		self   int
		want   string // in the refusal; empty if it may be run
	}{
		"own": {"nobody but the host needs it", 0o500, self, ""},
		"group": {"the group could exchange it", 0o775, self,
			"may be written by its group or by others (mode 0775)"},
		"others": {"everybody could exchange it", 0o757, self,
			"may be written by its group or by others (mode 0757)"},
		"set-uid": {"it would have the rights of its owner", 0o4755, self, "set-uid or set-gid (mode 4755)"},
		"set-gid": {"it would have the rights of its group", 0o2755, self, "set-uid or set-gid (mode 2755)"},
		"not executable": {"somebody forgot it, or it is a README", 0o644, self,
			"is not executable (mode 0644); chmod 0755 /plugins/helm if it is a plugin"},
		"of another": {"an owner can always write", 0o555, self + 1, "who could put anything there; chown it to root"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "helm")
			if err := os.WriteFile(path, nil, 0o600); err != nil {
				t.Fatal(err)
			}
			file, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer file.Close()
			if err := syscall.Chmod(path, test.mode); err != nil {
				t.Fatal(err)
			}
			if test.self != self && self == 0 {
				if err := os.Chown(path, 1000, 1000); err != nil { // root's own may be run by anybody
					t.Fatal(err)
				}
			}
			if err := checkFile(file, "/plugins/helm",
				test.self); (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
		})
	}
}

// Each start runs what was loaded: neither a new file nor new content of the old one.
// Rule (SECURITY.md#plugins): The bytes of the check are the bytes of the running program.
func TestOpenAgain(t *testing.T) {
	t.Parallel()
	for change, want := range map[string]string{"another file": "", "another content": "was changed since it was loaded"} {
		dir := t.TempDir()
		path := filepath.Join(dir, "plugin")
		if err := os.WriteFile(path, []byte("#!/bin/sh\nexit 3\n"), 0o700); err != nil {
			t.Fatal(err)
		}
		program := NewProgram(dir, "plugin")
		t.Cleanup(program.Close)
		before, err := program.Open()
		if err != nil {
			t.Fatal(err)
		}
		if change == "another file" {
			err = os.Remove(path)
		}
		if err := errors.Join(err, os.WriteFile(path, []byte("#!/bin/sh\nexit 4\n"), 0o700)); err != nil {
			t.Fatal(err)
		}
		sum, err := program.Open()
		if want == "" && (err != nil || sum != before) || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: expected %q, but found: %v", change, want, err)
		}
	}
}

// The test's own program is of the sdk's module, built from a working copy.
func TestSDKVersion(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(self)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	if got := sdkVersion(file); got == "" {
		t.Error("expected the version of the sdk")
	}
	if got := sdkVersion(strings.NewReader("#!/bin/sh\n")); got != "" {
		t.Errorf("expected none for a script, but found %q", got)
	}
}
