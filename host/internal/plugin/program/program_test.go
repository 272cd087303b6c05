package program

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"strings"
	"syscall"
	"testing"
	"time"
)

const script = "#!/bin/sh\nexec true\n"

func write(t *testing.T, path, content string, mode uint32) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Chmod(path, mode); err != nil { // whatever the umask is
		t.Fatal(err)
	}
}

func link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, path); err != nil {
		t.Fatal(err)
	}
}

// opened opens a program that must be fine, and closes it after the test.
func opened(t *testing.T, path string) *Program {
	t.Helper()
	p, err := Open(filepath.Dir(path), filepath.Base(path))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func TestOpen(t *testing.T) {
	t.Parallel()
	elsewhere := t.TempDir()
	write(t, filepath.Join(elsewhere, "program"), script, 0o755)
	tests := map[string]struct {
		reason string
		make   func(t *testing.T, path string)
		want   []string // parts of the refusal; nothing if it may be run
	}{
		"program":   {"the usual case", func(t *testing.T, path string) { write(t, path, script, 0o755) }, nil},
		"read-only": {"as in an image", func(t *testing.T, path string) { write(t, path, script, 0o555) }, nil},
		"own":       {"nobody but the host needs it", func(t *testing.T, path string) { write(t, path, script, 0o500) }, nil},
		"sticky":    {"means nothing for a file", func(t *testing.T, path string) { write(t, path, script, 0o1755) }, nil},
		"link": {"a second name", func(t *testing.T, path string) {
			write(t, path+".real", script, 0o755)
			link(t, "link.real", path)
		}, nil},
		"volume": {"this is how mounted ConfigMaps look", func(t *testing.T, path string) {
			version := filepath.Join(filepath.Dir(path), "..2026")
			if err := os.Mkdir(version, 0o755); err != nil {
				t.Fatal(err)
			}
			write(t, filepath.Join(version, "volume"), script, 0o755)
			link(t, "..2026", filepath.Join(filepath.Dir(path), "..data"))
			link(t, "..data/volume", path)
		}, nil},

		"link-out": {
			"what lies elsewhere is not under the control of who controls the directory",
			func(t *testing.T, path string) { link(t, relative(t, path, elsewhere)+"/program", path) },
			[]string{"it is a link to ../", "leads out of the plugin directory"},
		},
		"link-through-dir": {
			"the way is as long as it likes",
			func(t *testing.T, path string) {
				link(t, relative(t, path, elsewhere), path+".d")
				link(t, "link-through-dir.d/program", path)
			},
			[]string{"it is a link to link-through-dir.d/program", "leads out of the plugin directory"},
		},
		"link-absolute": {
			"nobody can say whether it stays inside",
			func(t *testing.T, path string) {
				write(t, path+".real", script, 0o755)
				link(t, path+".real", path)
			},
			[]string{"/link-absolute.real, which leads out of the plugin directory, or is absolute", "relative link"},
		},
		"link-dangling": {
			"with its target",
			func(t *testing.T, path string) { link(t, "missing", path) }, []string{"cannot be read: it is a link to missing, which is not there"},
		},
		"link-circle": {
			"no end",
			func(t *testing.T, path string) { link(t, "link-circle", path) }, []string{"cannot be read: it is a link to link-circle"},
		},
		"link-to-null": {
			"a device never ends",
			func(t *testing.T, path string) { link(t, os.DevNull, path) }, []string{"leads out of the plugin directory"},
		},
		"missing": {"it was there when the directory was read", func(*testing.T, string) {}, []string{"cannot be read", "no such file"}},

		"dir": {
			"plugins lie directly in the directory",
			func(t *testing.T, path string) { makeDir(t, path) }, []string{"is no regular file"},
		},
		"link-to-dir": {
			"a directory behind a link is one",
			func(t *testing.T, path string) { makeDir(t, path+".d"); link(t, "link-to-dir.d", path) }, []string{"is no regular file"},
		},
		"pipe": {
			"nobody waits for a writer",
			func(t *testing.T, path string) {
				if err := syscall.Mkfifo(path, 0o755); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"is no regular file"},
		},
		"socket": {
			"it cannot be opened",
			func(t *testing.T, path string) {
				listener, err := new(net.ListenConfig).Listen(t.Context(), "unix", path)
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = listener.Close() })
			},
			[]string{"cannot be read"},
		},

		"set-uid": {
			"it would have the rights of its owner",
			func(t *testing.T, path string) { write(t, path, script, 0o4755) }, []string{"set-uid", "(mode 4755)", "chmod 0755 ", "/set-uid"},
		},
		"set-gid": {
			"it would have the rights of its group",
			func(t *testing.T, path string) { write(t, path, script, 0o2755) }, []string{"set-gid", "(mode 2755)", "chmod 0755 ", "/set-gid"},
		},
		"group": {
			"the group could exchange it",
			func(t *testing.T, path string) { write(t, path, script, 0o775) }, []string{"may be written by its group or by others (mode 0775)", "chmod 0755 ", "/group"},
		},
		"others": {
			"everybody could exchange it",
			func(t *testing.T, path string) { write(t, path, script, 0o757) }, []string{"may be written by its group or by others (mode 0757)", "chmod 0755 ", "/others"},
		},
		"link-to-group": {
			"what counts is the file",
			func(t *testing.T, path string) {
				write(t, path+".real", script, 0o775)
				link(t, "link-to-group.real", path)
			},
			[]string{"may be written by its group"},
		},
		"mode": {
			"somebody forgot it, or it is a README",
			func(t *testing.T, path string) { write(t, path, script, 0o644) }, []string{"is not executable (mode 0644)", "chmod 0755 ", "/mode if it is a plugin"},
		},
		"text": {"a text that somebody made executable", func(t *testing.T, path string) { write(t, path, "hello", 0o755) }, []string{"is no program"}},
	}
	dir := t.TempDir()
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			test.make(t, filepath.Join(dir, name))
			p, err := Open(dir, name)
			if err == nil {
				t.Cleanup(func() { _ = p.Close() })
			}
			if (err == nil) != (len(test.want) == 0) {
				t.Fatalf("%s: expected the refusal %q, but found: %v", test.reason, test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
			if err == nil && (p.Name != name || p.Path != filepath.Join(dir, name) || p.File == nil) {
				t.Errorf("expected the name and the path of %s, but found %+v", name, p)
			}
		})
	}
}

func makeDir(t *testing.T, path string) {
	t.Helper()
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
}

// relative returns how a link at a path leads to a directory.
func relative(t *testing.T, path, to string) string {
	t.Helper()
	way, err := filepath.Rel(filepath.Dir(path), to)
	if err != nil {
		t.Fatal(err)
	}
	return way
}

func TestOpenNeedsDirectory(t *testing.T) {
	t.Parallel()
	if _, err := Open(filepath.Join(t.TempDir(), "missing"), "helm"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("expected it to be missing, but found: %v", err)
	}
}

func TestCheckName(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, name string
		ok           bool
	}{
		"plain":    {"the usual case", "helm", true},
		"letters":  {"file systems take them", "Pflanzgefäß v1.2~rc1", true},
		"dots":     {"not in front", "helm..old", true},
		"longest":  {"what file systems take", strings.Repeat("h", 255), true},
		"empty":    {"no name", "", false},
		"too long": {"more than file systems take", strings.Repeat("h", 256), false},
		"self":     {"the directory", ".", false},
		"parent":   {"another directory", "..", false},
		"hidden":   {"volumes are full of them", ".helm", false},
		"below":    {"plugins lie directly in the directory", "more/helm", false},
		"absolute": {"out of the directory", "/bin/sh", false},
		"slash":    {"no bare name", "helm/", false},
		"nul":      {"ends a name too early", "helm\x00", false},
		"encoding": {"logs and metrics could not name it", "helm\xff", false},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if err := CheckName(test.name); (err == nil) != test.ok {
				t.Errorf("%s: expected %t, but found: %v", test.reason, test.ok, err)
			}
			if _, err := Open(t.TempDir(), test.name); err == nil || errors.Is(err, fs.ErrNotExist) != test.ok {
				t.Errorf("%s: expected Open to look for it: %t, but found: %v", test.reason, test.ok, err)
			}
		})
	}
}

// Who exchanges a file between the check and the start has exchanged it for the next start: what is hashed and executed is what was checked.
func TestReplacedFile(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helm")
	const good, evil = "#!/bin/sh\necho good\n", "#!/bin/sh\necho evil\n"
	write(t, path, good, 0o755)
	p := opened(t, path)

	write(t, path+".new", evil, 0o755)
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	if sum, err := p.Sum(); err != nil || sum != sha256.Sum256([]byte(good)) {
		t.Errorf("expected the sum of what was opened, but found %x, %v", sum, err)
	}
	cmd := exec.CommandContext(t.Context(), "/proc/self/fd/3")
	cmd.ExtraFiles = []*os.File{p.File}
	if out, err := cmd.CombinedOutput(); err != nil || string(out) != "good\n" {
		t.Errorf("expected what was opened to run, but found %q, %v", out, err)
	}
	if sum, err := opened(t, path).Sum(); err != nil || sum != sha256.Sum256([]byte(evil)) {
		t.Errorf("expected the next start to see the new file, but found %x, %v", sum, err)
	}
}

func TestSumIsOfNow(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "helm")
	write(t, path, script, 0o755)
	p := opened(t, path)
	before, err := p.Sum()
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.Replace(script, "true", "fals", 1)
	write(t, path, changed, 0o755)
	if err := os.Chtimes(path, time.Time{}, info.ModTime()); err != nil {
		t.Fatal(err)
	}
	if after, err := p.Sum(); err != nil || after == before || after != sha256.Sum256([]byte(changed)) {
		t.Errorf("expected another sum, although inode, size and time are the same, but found %x, %v", after, err)
	}
}

func TestSumIsBounded(t *testing.T) {
	t.Parallel()
	content := []byte(strings.Repeat("a", 100))
	if digest, err := sum(bytes.NewReader(content), 100); err != nil || digest != sha256.Sum256(content) {
		t.Errorf("expected the sum of a file of the allowed size, but found %x, %v", digest, err)
	}
	if _, err := sum(bytes.NewReader(content), 99); err == nil || !strings.Contains(err.Error(), "larger than 99 bytes") {
		t.Errorf("expected a larger file to be refused, but found: %v", err)
	}
}

func TestClosedProgram(t *testing.T) {
	t.Parallel()
	closed, err := Open(filepath.Dir(ownPath(t)), filepath.Base(ownPath(t)))
	if err != nil {
		t.Fatal(err)
	}
	if err := closed.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := closed.Sum(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("expected no sum of a closed file, but found: %v", err)
	}
	if err := closed.Close(); !errors.Is(err, fs.ErrClosed) {
		t.Errorf("expected to hear that it was closed, but found: %v", err)
	}
}

func TestSDKVersion(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		info   debug.BuildInfo
		want   string
	}{
		"plugin": {"it has the sdk among others", debug.BuildInfo{Main: debug.Module{Path: "example.org/helm", Version: "v9"}, Deps: []*debug.Module{
			{Path: "example.org/other", Version: "v8"}, {Path: module, Version: "v0.3.0"},
		}}, "v0.3.0"},
		"our own": {"built in the sdk's module", debug.BuildInfo{Main: debug.Module{Path: module, Version: "v0.4.0"}}, "v0.4.0"},
		"another": {"no sdk, no version", debug.BuildInfo{Main: debug.Module{Path: "example.org/helm", Version: "v9"}}, ""},
		"similar": {"a module below is another one", debug.BuildInfo{Deps: []*debug.Module{{Path: module + "/v2", Version: "v2.0.0"}}}, ""},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := sdkVersion(&test.info); got != test.want {
				t.Errorf("%s: expected %q, but found %q", test.reason, test.want, got)
			}
		})
	}
}

// This test itself is a program of the sdk's module.
func TestSDKVersionOfProgram(t *testing.T) {
	t.Parallel()
	p := opened(t, ownPath(t))
	info, err := buildinfo.ReadFile(p.Path)
	if err != nil {
		t.Fatal(err)
	}
	if info.Main.Path != module {
		t.Fatalf("expected a program of %s, but found %s", module, info.Main.Path)
	}
	if got := p.SDKVersion(); got != info.Main.Version {
		t.Errorf("expected %q, but found %q", info.Main.Version, got)
	}
	path := filepath.Join(t.TempDir(), "script")
	write(t, path, script, 0o755)
	if got := opened(t, path).SDKVersion(); got != "" {
		t.Errorf("expected none for a script, but found %q", got)
	}
}

// ownPath returns the path to the program of this test.
func ownPath(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}
