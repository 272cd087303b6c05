package archive

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"syscall"
)

// Open opens a regular file for reading, although others may have put anything there and may change it now. It follows no symbolic links and
// does not wait. The name is relative to the root. The error is an *Error if what is there is refused, and fs.ErrNotExist if nothing is.
func Open(root *os.Root, name string) (*os.File, error) {
	name = path.Clean(name)
	for i, c := range name {
		if c == '/' {
			if _, err := look(root, name[:i], fs.ModeDir); err != nil {
				return nil, err
			}
		}
	}
	info, err := look(root, name, 0)
	if err != nil {
		return nil, err
	}
	return open(root, name, info)
}

// look returns what is at a path, which must be of the type.
func look(root *os.Root, name string, expected fs.FileMode) (fs.FileInfo, error) {
	info, err := root.Lstat(name)
	if err != nil {
		return nil, fmt.Errorf("look at %q: %w", shorten(name), withoutPath(err))
	}
	if found := info.Mode().Type(); found != expected {
		if expected == fs.ModeDir {
			return nil, wrongType(name, found, "a directory")
		}
		return nil, wrongType(name, found, "a regular file")
	}
	return info, nil
}

// open opens what was looked at. That may have been replaced since, by a pipe without a writer or by a link, whose target would be one in the
// root: what is opened must be the same file still.
func open(root *os.Root, name string, looked fs.FileInfo) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("open %q: %w", shorten(name), withoutPath(err))
	}
	opened, err := f.Stat()
	switch {
	case err != nil:
		err = fmt.Errorf("look at %q: %w", shorten(name), withoutPath(err))
	case !os.SameFile(looked, opened) || looked.Mode().Type() != opened.Mode().Type() || looked.Size() != opened.Size() && !looked.IsDir():
		err = changed(name)
	default:
		return f, nil
	}
	return nil, errors.Join(err, f.Close())
}

func changed(name string) error {
	return refuse(Changed, name, "has changed while it was read; let nothing write there when the main process has ended")
}

// withoutPath takes the path from an error: a name may be hostile, and the message has it already.
func withoutPath(err error) error {
	if inner, ok := errors.AsType[*fs.PathError](err); ok {
		return inner.Err
	}
	return err
}
