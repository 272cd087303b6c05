package archive

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// What was looked at is replaced before it is read.
func TestChanges(t *testing.T) {
	t.Parallel()
	write := func(name, text string) error { return os.WriteFile(name, []byte(text), 0o600) }
	for name, c := range map[string]struct {
		reason string
		change func(file, other string) error
	}{
		"another file": {"a file of before may be anybody's", func(file, other string) error { return os.Rename(other, file) }},
		"a link": {"the link leads to a file in the root", func(file, other string) error {
			return errors.Join(os.Remove(file), os.Symlink("other", file))
		}},
		"a pipe": {"nobody writes to it", func(file, _ string) error { return errors.Join(os.Remove(file), syscall.Mkfifo(file, 0o600)) }},
		"grown":  {"a file may grow for ever", func(file, _ string) error { return write(file, "longer") }},
		"shrunk": {"its size is in the archive before it", func(file, _ string) error { return write(file, "") }},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			root, err := os.OpenRoot(dir)
			if err := errors.Join(err, write(dir+"/file", "file"), write(dir+"/other", "other")); err != nil {
				t.Fatal(err)
			}
			defer root.Close()
			p := &packing{root: root, dir: "."}
			if err := errors.Join(p.collect(), c.change(dir+"/file", dir+"/other")); err != nil {
				t.Fatal(err)
			}
			_, err = p.write(1 << 20)
			refusal, ok := errors.AsType[*Error](err)
			if !ok || refusal.Kind != Changed || refusal.Path != "file" {
				t.Errorf("%s: expected that the change is found, but found %v", c.reason, err)
			}
		})
	}
}

// Files change after they were opened.
func TestChangesWhileReading(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"grown": "files", "shrunk": "fil", "gone": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := t.TempDir() + "/file"
			if err := os.WriteFile(path, []byte("file"), 0o600); err != nil {
				t.Fatal(err)
			}
			opened, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer opened.Close()
			info, err := opened.Stat()
			if err := errors.Join(err, os.WriteFile(path, []byte(text), 0o600)); err != nil {
				t.Fatal(err)
			}
			err = copyFile(newWriter(&bounded{}), found{"file", info}, opened, "state/file")
			if refusal, ok := errors.AsType[*Error](err); !ok || refusal.Kind != Changed || refusal.Path != "state/file" {
				t.Errorf("expected that the change is found, but found %v", err)
			}
		})
	}
}
