package plugin

import (
	"crypto/sha256"
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A program that is not the one that is meant, or that the configuration does not name, does not run, and leaves the
// others alone.
// Rule (SECURITY.md#plugins): A program with another checksum than that in the configuration is refused.
func TestVerification(t *testing.T) {
	t.Parallel()
	dir := pluginDir(t, "raw_b_two")
	program, err := os.ReadFile(filepath.Join(dir, "raw_b_two"))
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range []string{"a", "c"} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	sum := sha256.Sum256(program)
	h := openHost(t, dir, func(o *Options) {
		o.RequireSums, o.Profiles = true, map[string]Profile{
			"a":         {Plugin: "one", SHA256: strings.Repeat("ab", 32)},
			"raw_b_two": {Plugin: "b", SHA256: hex.EncodeToString(sum[:])},
		}
	}).run()
	h.waitFor("raw_b_two", Running)
	for file, want := range map[string]string{
		"a": "of plugins.one in the host configuration", "c": "plugins.c.sha256 is missing",
	} {
		h.expectProblem(file, Refused, want)
	}
}
