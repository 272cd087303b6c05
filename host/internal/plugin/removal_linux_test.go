package plugin

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What cannot be removed ends a removal, but not before all the rest is gone.
func TestRemoveTreeWithMount(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "t")
	fill(t, dir, func(dir *os.Root) error {
		return errors.Join(dir.MkdirAll("a/mount", 0o700), dir.MkdirAll("a/b/c", 0o700), litter(dir, 10))
	})
	mount := filepath.Join(dir, "a", "mount")
	if err := syscall.Mount("tmpfs", mount, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("no file system can be mounted here: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Unmount(mount, 0) }) // it is the fallback of what is below
	if err := os.WriteFile(filepath.Join(mount, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := removeTree(dir); !errors.Is(err, syscall.EBUSY) {
		t.Fatalf("expected the mount to be in the way, but found: %v", err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) != 1 {
		t.Errorf("expected nothing else to be left, but found %v, %v", left, err)
	}
	if err := syscall.Unmount(mount, 0); err != nil {
		t.Fatal(err)
	}
	removed(t, dir, "nothing is in the way")
}
