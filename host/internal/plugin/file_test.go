package plugin

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDiscover(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, file := range []string{"b", "a", ".hidden", "..data", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(dir, file), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Mkdir(filepath.Join(dir, "c"), 0o700); err != nil {
		t.Fatal(err)
	}
	got, err := discover(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a", "b", "c", "notes.txt"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}

// A refused file is there to see and takes no part in anything.
func TestRefusedFile(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "echo")
	if err := os.WriteFile(filepath.Join(dir, "README"), []byte("read me"), 0o644); err != nil {
		t.Fatal(err)
	}
	h := openHost(t, dir).run()
	h.waitFor("echo", Running)
	if s := h.waitFor("README", Refused); s.Problem == nil {
		t.Errorf("expected it to be refused for a reason, but found %v", s)
	}
	eventually(t, "the others to serve", func() bool { return h.For(echoType) != nil })
}
