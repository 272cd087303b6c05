package plugin

import (
	"errors"
	"os"
	"path/filepath"
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
	if _, _, err := discover(filepath.Join(dir, "missing"), nil); !os.IsNotExist(errors.Unwrap(err)) {
		t.Errorf("expected that there is no directory, but found: %v", err)
	}
}
