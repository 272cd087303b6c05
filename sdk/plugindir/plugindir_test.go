package plugindir_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/plugindir"
)

// What was killed in the middle leaves a copy, which the next installation of that name removes, but for one that may
// still be written.
func TestInstallAfterAKill(t *testing.T) {
	t.Parallel()
	program, dir := writeProgram(t), t.TempDir()
	stale := time.Now().Add(-time.Hour)
	for name, changed := range map[string]time.Time{
		".test.123": stale, ".test.456": time.Now(), ".test.other": stale, ".other.123": stale, "test.123": stale,
	} {
		path := filepath.Join(dir, name)
		write(t, path, "something else")
		if err := os.Chtimes(path, changed, changed); err != nil {
			t.Fatal(err)
		}
	}
	path, err := plugindir.Install(program, dir, "test")
	content, readErr := os.ReadFile(filepath.Join(dir, "test"))
	if err := errors.Join(err, readErr); err != nil || path != filepath.Join(dir, "test") ||
		string(content) != "a program" {
		t.Errorf("expected the program, but found %q at %q, %v", content, path, err)
	}
	want := []string{".other.123", ".test.456", ".test.other", "test", "test.123"}
	if found := names(t, dir); !slices.Equal(found, want) {
		t.Errorf("expected %v, but found %v", want, found)
	}
}

// What is there is replaced: a file that others may write, and a link, which is not followed.
func TestInstallReplaces(t *testing.T) {
	t.Parallel()
	program, dir := writeProgram(t), t.TempDir()
	write(t, filepath.Join(dir, "old"), "an old one")
	chmodErr := os.Chmod(filepath.Join(dir, "old"), 0o666)
	if err := errors.Join(chmodErr, os.Symlink("/dev/null", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"old", "link"} {
		path, err := plugindir.Install(program, dir, name)
		if err != nil {
			t.Fatal(err)
		}
		info, err := os.Lstat(path)
		if content, readErr := os.ReadFile(path); err != nil || info.Mode() != 0o555 || string(content) != "a program" {
			t.Errorf("%s: expected the program, but found %q with mode %v (%v, %v)", name, content, info.Mode(), err, readErr)
		}
	}
}

// Who may not write the directory is named in the error. Not parallel: the user is that of the whole process.
func TestInstallWithoutTheRight(t *testing.T) { //nolint:paralleltest // see above
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	program, dir := writeProgram(t), t.TempDir()
	// The parent of both directories lets only its owner in.
	if err := errors.Join(os.Chmod(program, 0o755), os.Chmod(filepath.Dir(dir), 0o755)); err != nil {
		t.Fatal(err)
	}
	become := syscall.Seteuid(65532)
	_, err := plugindir.Install(program, dir, "test")
	if err := errors.Join(become, syscall.Seteuid(0)); err != nil {
		t.Fatal(err)
	}
	const want = "permission denied; user 65532 of this process must be able to write the directory"
	if err == nil || !strings.HasSuffix(err.Error(), want) {
		t.Errorf("expected %q, but found %v", want, err)
	}
	if found := names(t, dir); len(found) > 0 {
		t.Errorf("expected nothing, but found %v", found)
	}
}

// What hosts would pass over is refused, and so is what is no program; nothing is left.
func TestInstallIsRefused(t *testing.T) {
	t.Parallel()
	program, dir := writeProgram(t), t.TempDir()
	other := filepath.Dir(program)
	for _, c := range []struct{ reason, program, dir, name, want string }{
		{"a host would not see it", program, dir, ".test", "hosts pass over those"},
		{"no name", program, dir, "", "expected the bare name of a file"},
		{"another directory", program, dir, "../test", "expected the bare name of a file"},
		{"no name of a file", program, dir, "te\x00st", "expected the bare name of a file"},
		{"no program", other, dir, "test", "expected a file, but " + other + " is none"},
		{"a program that is not there", program + "s", dir, "test", "open the program"},
		{"the name is too long", program, dir, strings.Repeat("a", 250), "file name too long; choose a shorter name"},
		{"no directory", program, dir + "/none", "test", "expected a directory, but found nothing at " + dir + "/none"},
		{"a file for a directory", program, program, "test", "expected a directory, but " + program + " is a file"},
		{"a directory in its place", program, filepath.Dir(other), filepath.Base(other), "but found a directory; remove it"},
	} {
		if _, err := plugindir.Install(c.program, c.dir, c.name); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: expected %q, but found %v", c.reason, c.want, err)
		}
	}
	if found := names(t, dir); len(found) > 0 {
		t.Errorf("expected nothing, but found %v", found)
	}
}

func writeProgram(t *testing.T) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "program")
	write(t, path, "a program")
	return path
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) (found []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		found = append(found, e.Name())
	}
	return found
}
