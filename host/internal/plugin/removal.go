package plugin

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

const (
	// maxRemovals bounds the time that one removal takes: ten seconds for files, and two minutes for directories in each other.
	maxRemovals = 1 << 20
	// namesAtOnce is how many names of a directory are in memory.
	namesAtOnce = 512
)

// removeTree removes a directory that somebody else has filled, and may still be filling. It takes few descriptors and little memory
// however deep and wide the directory is, where os.RemoveAll takes a descriptor for each level. It follows no symbolic links, and modes
// that the owner of a directory may change do not stop it. What cannot be removed is left behind with the rest of its path gone; the
// error is about one such entry. It blocks for as long as that takes, and gives up after maxRemovals entries. A directory that is
// missing is no error.
func removeTree(dir string) error {
	if err := removeBounded(dir, maxRemovals); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("remove %s: %w", dir, err)
	}
	return nil
}

func removeBounded(dir string, removals int) error {
	parent, err := os.OpenRoot(filepath.Dir(dir))
	if err != nil {
		return err
	}
	defer func() { _ = parent.Close() }() // it was only looked up in
	name := filepath.Base(dir)
	if parent.Remove(name) == nil { // empty, or no directory
		return nil
	}
	top, err := openDir(parent, name)
	if err != nil {
		return err
	}
	defer func() { _ = top.Close() }() // as above
	r := &removal{top: top, left: removals}
	for r.left > 0 {
		before := r.left
		r.failed = nil
		if err := r.clear(top, r.clearDir); err != nil {
			return err
		}
		switch err := parent.Remove(name); {
		case err == nil:
			return nil
		case !errors.Is(err, fs.ErrExist): // it is empty, or is no longer where it was
			return err
		case r.failed != nil && r.left == before:
			return r.failed
		}
		r.left-- // for the round: somebody may add one entry in each
	}
	return errStillFilled
}

// removal empties a directory without ever going deeper than two levels: directories that are found further down are moved up into it.
type removal struct {
	top *os.Root
	// left is how many more entries may be removed or moved.
	left int
	// failed says why an entry could not be removed in this round, the first of those: it keeps the ones above from being empty.
	failed error
}

var errStillFilled = errors.New("gave up, for it has too many entries, or somebody goes on filling it; " +
	"end the processes that write to it, and remove it by hand")

// clear removes what can be removed at once from a directory and does something else about directories that are not empty. Some entries
// may be passed over, as in any directory that changes while it is read.
func (r *removal) clear(dir *os.Root, notEmpty func(name string) error) error {
	list, err := dir.Open(".")
	if err != nil {
		return err
	}
	defer func() { _ = list.Close() }() // it was only read
	for {
		names, err := list.Readdirnames(namesAtOnce)
		for _, name := range names {
			if err := r.remove(dir, name, notEmpty); err != nil {
				return err
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		}
	}
}

// remove fails only if nothing else is to be tried.
func (r *removal) remove(dir *os.Root, name string, notEmpty func(name string) error) error {
	if r.left <= 0 {
		return errStillFilled
	}
	err := dir.Remove(name)
	if err != nil {
		if info, statErr := dir.Lstat(name); statErr == nil && info.IsDir() {
			err = notEmpty(name)
		}
	}
	switch {
	case errors.Is(err, errStillFilled):
		return err
	case err == nil, errors.Is(err, fs.ErrNotExist):
		r.left--
	case r.failed == nil:
		r.failed = err
	}
	return nil
}

// clearDir removes a directory in the top one, but for what is passed over.
func (r *removal) clearDir(name string) error {
	dir, err := openDir(r.top, name)
	if err != nil {
		return err
	}
	defer func() { _ = dir.Close() }() // it was only looked up in
	err = r.clear(dir, func(child string) error {
		// Whoever moves a directory writes to it, too, for its "..".
		if err := dir.Chmod(child, 0o700); err != nil {
			return err
		}
		return r.top.Rename(filepath.Join(name, child), rand.Text()) // which nobody can have taken
	})
	if err != nil {
		return err
	}
	return r.top.Remove(name)
}

// openDir opens a directory, and nothing else, and makes it one whose entries can be removed.
func openDir(parent *os.Root, name string) (*os.Root, error) {
	info, err := parent.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, &fs.PathError{Op: "open directory", Path: name, Err: errors.New("it has become something else")}
	}
	if err := parent.Chmod(name, 0o700); err != nil {
		return nil, err
	}
	dir, err := parent.OpenRoot(name)
	if err != nil {
		return nil, err
	}
	opened, err := dir.Stat(".")
	if err == nil && !os.SameFile(info, opened) {
		err = &fs.PathError{Op: "open directory", Path: name, Err: errors.New("it was exchanged meanwhile")}
	}
	if err != nil {
		return nil, errors.Join(err, dir.Close())
	}
	return dir, nil
}
