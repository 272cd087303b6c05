package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPluginsInstall(t *testing.T) {
	from := t.TempDir()
	program := filepath.Join(from, "roses-v2")
	if err := os.WriteFile(program, []byte("a program"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		reason string
		before string // a file that is there
		arg    string
		file   string
		err    string
	}{
		"own name":     {reason: "a file is called as it was", arg: program, file: "roses-v2"},
		"another name": {reason: "as is asked for", arg: "roses=" + program, file: "roses"},
		"replaced":     {reason: "the new one is meant", before: "roses", arg: "roses=" + program, file: "roses"},
		"hidden":       {reason: "a host would not see it", arg: ".roses=" + program, err: `expected the bare name of a file that is not hidden, as hosts pass over those, but found ".roses"`},
		"nothing":      {reason: "there is nothing to copy", arg: filepath.Join(from, "lilies"), err: "no such file or directory"},
		"directory":    {reason: "that is no plugin", arg: from, err: "expected a file, but " + from + " is none"},
		"a name alone": {reason: "it has to be said what is copied", arg: "roses=", err: "no such file or directory"},
	} {
		t.Run(name, func(t *testing.T) {
			to := t.TempDir()
			if test.before != "" {
				if err := os.WriteFile(filepath.Join(to, test.before), []byte("old"), 0o400); err != nil {
					t.Fatal(err)
				}
			}
			out, err := pergola(t, "plugins", "install", "--to", to, test.arg)
			entries, readErr := os.ReadDir(to)
			if readErr != nil {
				t.Fatal(readErr)
			}
			if test.err != "" {
				if err == nil || !strings.Contains(err.Error(), test.err) || len(entries) > 0 {
					t.Errorf("%s: expected %q and nothing there, but found: %v, %v", test.reason, test.err, err, entries)
				}
				return
			}
			path := filepath.Join(to, test.file)
			if err != nil || !strings.HasSuffix(out, " is installed as "+path+"\n") || len(entries) != 1 {
				t.Fatalf("%s: found %q, %v, %v", test.reason, out, err, entries)
			}
			content, err := os.ReadFile(path)
			if info, statErr := os.Stat(path); err != nil || statErr != nil || string(content) != "a program" || info.Mode() != 0o555 {
				t.Errorf("%s: expected the program, mode 0555, but found %q, %v, %v, %v", test.reason, content, info, err, statErr)
			}
		})
	}
	if _, err := pergola(t, "plugins", "install", "--to", filepath.Join(from, "nowhere"), program); err == nil || !strings.Contains(err.Error(), "found nothing at "+filepath.Join(from, "nowhere")+"; create it") {
		t.Errorf("expected that there is no directory, but found: %v", err)
	}
}
