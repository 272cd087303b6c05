package archive_test

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// TestMain has the tests find the modes that are asked for.
func TestMain(m *testing.M) {
	syscall.Umask(0o022)
	os.Exit(m.Run())
}

// generous is a limit that no good archive here comes near.
const generous = 64 << 20

// helper is what can fail a test: that of the testing package, or rapid's.
type helper interface {
	Helper()
	Fatal(args ...any)
	Cleanup(f func())
}

// newRoot returns a root with an empty directory "state", and its path.
func newRoot(t helper) (*os.Root, string) {
	t.Helper()
	dir, err := os.MkdirTemp("", "archive-")
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	must(t, os.Mkdir(filepath.Join(dir, "state"), 0o755))
	root, err := os.OpenRoot(dir)
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func must(t helper, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// content is a tree: the content of files, and directories with a slash at the end. Files whose name begins with "x"
// are executable.
type content map[string]string

func (c content) write(t helper, dir string) {
	t.Helper()
	for name, text := range c {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		if strings.HasSuffix(name, "/") {
			must(t, os.MkdirAll(path, 0o755))
			continue
		}
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(filepath.Base(name), "x") {
			mode = 0o755
		}
		must(t, os.WriteFile(path, []byte(text), mode))
	}
}

// read reads a tree, with all of its directories. Modes are as Unpack makes them, or the test fails.
func read(t helper, dir string) content {
	t.Helper()
	all := content{}
	must(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, dir+"/")
		mode := fs.FileMode(0o644)
		switch {
		case entry.IsDir():
			name, mode = name+"/", fs.ModeDir|0o755
		case strings.HasPrefix(entry.Name(), "x"):
			mode = 0o755
		}
		if info.Mode() != mode {
			return fmt.Errorf("%s has the mode %s", name, info.Mode())
		}
		var text []byte
		if !entry.IsDir() {
			text, err = os.ReadFile(path)
		}
		all[name] = string(text)
		return err
	}))
	return all
}

// entry is an entry of an archive; a file unless the header says otherwise.
type entry struct {
	name, content string
	header        tar.Header
}

func special(header tar.Header) entry { return entry{name: header.Name, header: header} }

// tarOf writes a tar archive.
func tarOf(t helper, entries ...entry) []byte {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, e := range entries {
		header := e.header
		header.Name = e.name
		if header.Typeflag == 0 {
			header.Typeflag = tar.TypeReg
		}
		if header.Typeflag == tar.TypeReg {
			header.Size = int64(len(e.content))
		}
		must(t, w.WriteHeader(&header))
		_, err := w.Write([]byte(e.content))
		must(t, err)
	}
	must(t, w.Close())
	return b.Bytes()
}

// zip compresses, each argument to a member of its own.
func zip(t helper, members ...[]byte) []byte {
	t.Helper()
	var b bytes.Buffer
	for _, member := range members {
		w := gzip.NewWriter(&b)
		_, err := w.Write(member)
		must(t, err)
		must(t, w.Close())
	}
	return b.Bytes()
}

func pack(t helper, entries ...entry) []byte {
	t.Helper()
	return zip(t, tarOf(t, entries...))
}

// archiveOf packs a directory and joins the chunks; nil for none.
func archiveOf(root *os.Root, dir string, maxBytes int64) ([]byte, error) {
	var all []byte
	chunks, err := archive.Pack(root, dir, maxBytes, func(number int, chunk []byte) error {
		if len(all) != number*layout.ChunkBytes || len(chunk) > layout.ChunkBytes {
			return fmt.Errorf("chunk %d of %d bytes comes after %d bytes", number, len(chunk), len(all))
		}
		all = append(all, chunk...)
		return nil
	})
	if want := (len(all) + layout.ChunkBytes - 1) / layout.ChunkBytes; err == nil && chunks != want {
		err = fmt.Errorf("expected %d chunks, but found %d", want, chunks)
	}
	if err != nil {
		return nil, err
	}
	return all, nil
}

func unpack(raw []byte, root *os.Root) error {
	return archive.Unpack(bytes.NewReader(raw), root, "state")
}

// refused fails the test unless the error says so of the path, in a sentence that is fit to be shown; "" for the
// archive or no name.
func refused(t *testing.T, err error, path, says string) {
	t.Helper()
	subject := ""
	if path != "" {
		subject = strings.Trim(strconv.Quote(path[max(0, len(path)-100):]), `"`) + `" `
	}
	if err == nil || !strings.Contains(err.Error(), subject) || !strings.Contains(err.Error(), says) {
		t.Fatalf("expected an error of %q that says %q, but found %v", path, says, err)
	}
	if message := err.Error(); len(message) > 500 || strings.ContainsAny(message, "\x1b\n") {
		t.Errorf("the message %q is not fit to be shown", message)
	}
}
