package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/pergola-deploy/pergola/plugins/container/internal/archive"
	"github.com/pergola-deploy/pergola/plugins/container/internal/layout"
)

// initialize prepares the image's directories, and finds out whether its results can be uploaded.
func initialize(base string, log *slog.Logger) error {
	if err := prepare(base); err != nil {
		return err
	}
	server, err := connect(filepath.Join(base, layout.Access), log)
	if err != nil {
		return err
	}
	return server.reach()
}

// prepare makes the image's directories with its input and its last state.
func prepare(base string) error {
	syscall.Umask(0o022) // the image may run as another user, and has to read all of it
	shared := filepath.Join(base, layout.Shared)
	if err := os.MkdirAll(shared, 0o755); err != nil { //nolint:gosec // as above
		return fmt.Errorf("make directory: %w", err)
	}
	root, err := os.OpenRoot(shared)
	if err != nil {
		return fmt.Errorf("open directory: %w", err)
	}
	defer func() { _ = root.Close() }() // nothing depends on it
	for _, dir := range []string{
		path.Dir(layout.Imports), path.Dir(layout.Exports), path.Dir(layout.Target), layout.Content, layout.State,
	} {
		if err := root.MkdirAll(inShared(dir), 0o755); err != nil {
			return fmt.Errorf("make directory: %w", err)
		}
	}
	if found, err := unpack(filepath.Join(base, layout.Input), root, "."); err != nil {
		return fmt.Errorf("unpack the input: %w", err)
	} else if !found {
		return fmt.Errorf("unpack the input: there is no file %s in %s",
			layout.ChunkFile(0), filepath.Join(base, layout.Input))
	}
	if _, err := unpack(filepath.Join(base, layout.OldState), root, inShared(layout.State)); err != nil {
		return fmt.Errorf("unpack the state of the last run: %w", err)
	}
	return nil
}

// unpack unpacks the archive of the chunks in dir into a directory of the root, if there are any.
func unpack(dir string, root *os.Root, into string) (found bool, err error) {
	all := &chunks{dir: dir}
	if found, err := all.open(); err != nil || !found {
		return false, err
	}
	defer func() { _ = all.file.Close() }() // it was only read
	return true, archive.Unpack(all, root, into)
}

// chunks reads the chunks in a directory one after the other; open comes first.
type chunks struct {
	dir string
	// file is the current chunk, and opened the number of chunks opened so far.
	file   *os.File
	opened int
}

// open opens the next chunk, and reports whether there is one.
func (c *chunks) open() (found bool, err error) {
	file, err := os.Open(filepath.Join(c.dir, layout.ChunkFile(c.opened)))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("read chunk: %w", err)
	}
	if c.file != nil {
		_ = c.file.Close() // it was only read
	}
	c.file, c.opened = file, c.opened+1
	return true, nil
}

// Read implements io.Reader.
func (c *chunks) Read(p []byte) (int, error) {
	for {
		n, err := c.file.Read(p)
		switch {
		case n > 0 || err == nil:
			return n, nil
		case !errors.Is(err, io.EOF):
			return 0, fmt.Errorf("read chunk: %w", err)
		}
		if found, err := c.open(); err != nil || !found {
			return 0, cmp.Or(err, io.EOF)
		}
	}
}

// inShared returns a path of layout relative to the shared directory.
func inShared(name string) string { return strings.TrimPrefix(name, layout.Shared+"/") }
