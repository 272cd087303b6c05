package plugin

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"pgregory.net/rapid"
)

func TestRemoveTree(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		fill   func(dir *os.Root) error
	}{
		"empty":    {"nothing to do", func(*os.Root) error { return nil }},
		"deep":     {"neither descriptors nor paths grow with the depth", func(dir *os.Root) error { return nest(dir, 500) }},
		"wide":     {"more than is listed at once", func(dir *os.Root) error { return litter(dir, 2*namesAtOnce) }},
		"no modes": {"a plugin may take all permissions from its directories", withoutModes},
		"numbers": {"names are the plugin's to choose", func(dir *os.Root) error {
			return errors.Join(dir.MkdirAll("0/1/0/1/2", 0o700), dir.MkdirAll("1/0/0", 0o700), dir.MkdirAll("2/-/...", 0o700))
		}},
		"bushy": {"several directories in each", func(dir *os.Root) error {
			for i := range 64 {
				path := strings.Join(strings.Split(strconv.FormatInt(int64(64+i), 2), ""), "/")
				if err := dir.MkdirAll(path, 0o700); err != nil {
					return err
				}
			}
			return nil
		}},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "t")
			fill(t, dir, test.fill)
			removed(t, dir, test.reason)
		})
	}
}

// fill makes a directory with something in it.
func fill(t interface{ Fatal(args ...any) }, dir string, with func(dir *os.Root) error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(with(root), root.Close()); err != nil {
		t.Fatal(err)
	}
}

func removed(t interface {
	Fatalf(format string, args ...any)
}, dir, reason string) {
	err := removeTree(dir)
	if _, left := os.Lstat(dir); err != nil || !errors.Is(left, fs.ErrNotExist) {
		t.Fatalf("%s: expected nothing to be left, but found: %v, %v", reason, left, err)
	}
}

// nest makes directories in each other, for which no path is short enough.
func nest(top *os.Root, depth int) error {
	name := strings.Repeat("d", 16)
	dir, err := top.OpenRoot(".")
	for range depth {
		if err != nil {
			return err
		}
		outer := dir
		if err = outer.Mkdir(name, 0o700); err == nil {
			dir, err = outer.OpenRoot(name)
		}
		err = errors.Join(err, outer.Close())
	}
	return errors.Join(err, dir.Close())
}

func litter(dir *os.Root, files int) error {
	for i := range files {
		if err := dir.WriteFile(strconv.Itoa(i), nil, 0); err != nil {
			return err
		}
	}
	return nil
}

func withoutModes(dir *os.Root) error {
	return errors.Join(dir.MkdirAll("a/b/c", 0o700), dir.MkdirAll("a/d", 0o700), dir.WriteFile("a/b/c/file", nil, 0),
		dir.Chmod("a/b/c", 0), dir.Chmod("a/b", 0o500), dir.Chmod("a/d", 0), dir.Chmod("a", 0o300), dir.Chmod(".", 0))
}

// All of these hold for a host that is not root and has few descriptors.
func TestRemoveTreeAsOrdinaryUser(t *testing.T) {
	t.Parallel()
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else, and the others run as an ordinary user already")
	}
	self, err := os.Open("/proc/self/exe") // which others may find no way to
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = self.Close() }() // it was only executed
	cmd := exec.CommandContext(t.Context(), "/bin/sh", "-c", "ulimit -n 100; exec /proc/self/fd/3 -test.parallel=2 '-test.run=^TestRemoveTree'")
	cmd.ExtraFiles = []*os.File{self}
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65532, Gid: 65532}}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func TestRemoveTreeFollowsNoLinks(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	dir, outside := filepath.Join(base, "t"), filepath.Join(base, "outside")
	file := filepath.Join(outside, "d", "file")
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte("text"), 0o640)); err != nil {
		t.Fatal(err)
	}
	fill(t, dir, func(dir *os.Root) error {
		return errors.Join(dir.MkdirAll("a/b", 0o700), dir.Symlink(outside, "up"), dir.Symlink("../../outside", "a/up"),
			dir.Symlink(file, "a/b/file"), dir.Symlink(".", "a/b/loop"), dir.Symlink("nowhere", "dangling"))
	})
	removed(t, dir, "links are removed like files")

	if err := os.Symlink(outside, dir); err != nil {
		t.Fatal(err)
	}
	removed(t, dir, "the directory itself was exchanged for a link")

	info, err := os.Stat(filepath.Dir(file))
	if err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("expected the directory outside to be as it was, but found: %v, %v", info, err)
	}
	if text, err := os.ReadFile(file); err != nil || string(text) != "text" {
		t.Errorf("expected the file outside to be as it was, but found: %q, %v", text, err)
	}
}

func TestRemoveTreeThatIsNotThere(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, path := range []string{filepath.Join(dir, "missing"), filepath.Join(dir, "missing", "too")} {
		removed(t, path, "somebody else was first")
	}
}

func TestRemoveTreeGivesUp(t *testing.T) {
	t.Parallel()
	for reason, with := range map[string]func(dir *os.Root) error{
		"files":              func(dir *os.Root) error { return litter(dir, 11) },
		"files further down": func(dir *os.Root) error { return errors.Join(dir.MkdirAll("a/b/c/d", 0o700), inside(dir, "a/b", 11)) },
		"levels":             func(dir *os.Root) error { return nest(dir, 11) },
	} {
		dir := filepath.Join(t.TempDir(), "t")
		fill(t, dir, with)
		if err := removeBounded(dir, 10); !errors.Is(err, errStillFilled) {
			t.Errorf("%s: expected it to give up after 10 entries, but found: %v", reason, err)
		}
		removed(t, dir, "another attempt takes the rest")
	}
}

func inside(dir *os.Root, name string, files int) error {
	sub, err := dir.OpenRoot(name)
	if err != nil {
		return err
	}
	return errors.Join(litter(sub, files), sub.Close())
}

// While somebody fills it, a removal ends, and when nobody does any more it succeeds.
func TestRemoveTreeAgainstWriter(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	stop, stopped := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(stopped)
		for i := 0; ; i++ {
			select {
			case <-stop:
				return
			default:
				_ = os.MkdirAll(filepath.Join(dir, "a", "b", strconv.Itoa(i)), 0o700) // which is being removed
			}
		}
	}()
	for range 5 {
		_ = removeBounded(dir, 100) // that it returns is what this is about
	}
	close(stop)
	<-stopped
	removed(t, dir, "the writer has ended")
}

func TestRemoveTreeRemovesAnyTree(t *testing.T) {
	t.Parallel()
	base := t.TempDir()
	rapid.Check(t, func(t *rapid.T) {
		dir := filepath.Join(base, "t")
		paths := rapid.SliceOfN(rapid.StringMatching(`[abc](/[abc]){0,5}`), 0, 20).Draw(t, "paths")
		fill(t, dir, func(dir *os.Root) error {
			for _, path := range paths {
				_ = rapid.SampledFrom([]func() error{ // something else may be in the way
					func() error { return dir.MkdirAll(path, 0o700) },
					func() error { return dir.WriteFile(path, nil, 0o600) },
					func() error { return dir.Symlink("../a", path) },
				}).Draw(t, "make")()
			}
			for i := len(paths) - 1; i >= 0; i-- {
				mode := rapid.SampledFrom([]fs.FileMode{0, 0o100, 0o300, 0o500, 0o700}).Draw(t, "mode")
				_ = dir.Chmod(paths[i], mode) // it may be out of reach already
			}
			return nil
		})
		removed(t, dir, "any tree")
	})
}
