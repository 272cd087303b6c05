package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// requireSums has a host run no other programs than those that are in the directory now.
func requireSums(t *testing.T, dir string) func(*Options) {
	t.Helper()
	files, _, err := discover(dir, func(string) bool { return false })
	if err != nil {
		t.Fatal(err)
	}
	profiles := map[string]Profile{}
	for _, file := range files {
		content, err := os.ReadFile(filepath.Join(dir, file))
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(content)
		profiles[file] = Profile{Plugin: strings.Split(file, "_")[1], SHA256: hex.EncodeToString(sum[:])}
	}
	return func(o *Options) { o.RequireSums, o.Profiles = true, profiles }
}

// A program that is not the one that is meant, or that nobody has named, does not run, and leaves the others alone.
func TestVerification(t *testing.T) {
	t.Parallel()
	dir := copies(t, "raw_a_one", "raw_b_two")
	require := requireSums(t, dir)
	appendTo(t, filepath.Join(dir, "raw_a_one"))
	addPlugin(t, filepath.Join(dir, "raw_b_two"), filepath.Join(dir, "raw_c_three"))
	h := openHost(t, dir, require).run()
	h.waitFor("raw_b_two", Running)
	for file, want := range map[string]string{"raw_a_one": "of plugins.a in the host configuration",
		"raw_c_three": "plugins.raw_c_three.sha256 is missing"} {
		if s := h.waitFor(file, Refused); !strings.Contains(s.Problem.Error(), want) {
			t.Errorf("expected %s to be refused with %q, but found: %v", file, want, s.Problem)
		}
	}
}

// copies returns a plugin directory whose files are not shared with those of other tests.
func copies(t *testing.T, files ...string) string {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	content, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, file := range files {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o755); err != nil { // #nosec G306 -- a program
			t.Fatal(err)
		}
	}
	return dir
}

// appendTo changes a program in a way that does not keep it from running.
func appendTo(t *testing.T, path string) {
	t.Helper()
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("x")
	if err := errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
}
