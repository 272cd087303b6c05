// Package rundir gives a process a directory of its own for sockets and temporary files, and finds those of others.
//
// The directories of one user lie in a base directory that belongs to this user alone, each by the name of its process id. A lock on
// the directory shows that the process lives: the kernel releases it, however the process ends, so that it tells more than a process
// id, which may be somebody else's by now. Who makes a directory removes those of processes that are gone. That cures what kill -9
// leaves behind, and a container in which every host is process 1. The lock is on the directory itself and not on a file in it,
// because those who tidy up old temporary files leave locked directories alone.
package rundir

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

const (
	// gonePrefix begins the names of directories that are about to be removed.
	gonePrefix = ".gone-"
	// maxPath leaves room for the names that are made up in the directory: the path of a Unix socket holds 107 bytes.
	maxPath = 60
)

// Dir is the directory of this process. Nobody else can enter it.
type Dir struct {
	path string
	lock *os.File
}

// Entry is the directory of a process that lives.
type Entry struct {
	// Pid of the process. It may be that of another container, if the base directory is shared.
	Pid int
	// Path of its directory.
	Path string
}

// DefaultBase is the base directory of this user if no other is named: pergola-<uid> in the directory for temporary files.
func DefaultBase() string {
	return filepath.Join(os.TempDir(), "pergola-"+strconv.Itoa(os.Geteuid()))
}

// Make makes the directory of this process in a base directory, which it makes as well if it is not there, and removes what is left of
// processes that are gone. It waits for others who do so at the same time, until ctx ends. The caller closes the directory. A process
// has one at a time.
func Make(ctx context.Context, base string) (*Dir, error) {
	base, err := filepath.Abs(base)
	if err != nil {
		return nil, fmt.Errorf("find the run directory: %w", err)
	}
	path := filepath.Join(base, strconv.Itoa(os.Getpid()))
	if len(path) > maxPath {
		return nil, fmt.Errorf("the run directory %q has %d bytes, but the names of sockets in it leave room for no more than %d; set TMPDIR or --run-dir to a shorter path",
			path, len(path), maxPath)
	}
	if err := os.Mkdir(base, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("make the base of the run directory: %w", err)
	}
	made, err := underLock(ctx, base, func() (*Dir, error) {
		if err := setAsideGone(base); err != nil {
			return nil, err
		}
		return create(path)
	})
	// What cannot be removed, because something that has outlived its process still writes there, is removed another time.
	_ = removeGone(base)
	return made, err
}

// Living lists the directories of processes that live, in order of process ids. There are none if the base directory is not there.
func Living(ctx context.Context, base string) ([]Entry, error) {
	entries, err := underLock(ctx, base, func() ([]Entry, error) {
		living, _, err := split(base)
		return living, err
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return entries, err
}

// Path of the directory. It has at most 60 bytes.
func (d *Dir) Path() string { return d.path }

// Close removes the directory with everything in it.
func (d *Dir) Close() error {
	err := os.RemoveAll(d.path)
	if err := errors.Join(err, d.lock.Close()); err != nil {
		return fmt.Errorf("remove the run directory: %w", err)
	}
	return nil
}

// create makes a directory that is not there, with a lock that shows that it is in use.
func create(path string) (*Dir, error) {
	switch err := os.Mkdir(path, 0o700); {
	case errors.Is(err, fs.ErrExist):
		// All that is left of the dead was put aside.
		return nil, fmt.Errorf("the run directory %s is that of another process, of another container with the same process id, say; name a base of its own with --run-dir", path)
	case err != nil:
		return nil, fmt.Errorf("make the run directory: %w", err)
	}
	lock, free, err := tryLock(path)
	if err == nil && !free {
		err = errors.New("somebody else has locked it")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("make the run directory: %w", err), os.RemoveAll(path))
	}
	return &Dir{path: path, lock: lock}, nil
}

// split finds the directories of processes in a base directory: of those that live, and of those that are gone.
func split(base string) (living []Entry, gone []string, err error) {
	names, err := os.ReadDir(base)
	if err != nil {
		return nil, nil, fmt.Errorf("read the base of run directories: %w", err)
	}
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid <= 0 || !name.IsDir() {
			continue
		}
		path := filepath.Join(base, name.Name())
		free, err := isFree(path)
		switch {
		case err != nil:
			return nil, nil, fmt.Errorf("look whether the process of %s lives: %w", path, err)
		case free:
			gone = append(gone, path)
		default:
			living = append(living, Entry{Pid: pid, Path: path})
		}
	}
	slices.SortFunc(living, func(a, b Entry) int { return a.Pid - b.Pid })
	return living, gone, nil
}

// isFree tells whether nobody holds the lock of a directory.
func isFree(path string) (bool, error) {
	lock, free, err := tryLock(path)
	if free {
		_ = lock.Close() // it was only read
	}
	return free, err
}

// setAsideGone takes the directories of processes that are gone out of the way. To remove them may take long, and may fail.
func setAsideGone(base string) error {
	_, gone, err := split(base)
	if err != nil {
		return err
	}
	for _, path := range gone {
		aside, err := os.MkdirTemp(base, gonePrefix)
		if err == nil {
			err = os.Rename(path, filepath.Join(aside, filepath.Base(path)))
		}
		if err != nil {
			return fmt.Errorf("take the run directory of a process that is gone out of the way: %w", err)
		}
	}
	return nil
}

func removeGone(base string) error {
	names, err := os.ReadDir(base)
	if err != nil {
		return err
	}
	for _, name := range names {
		if strings.HasPrefix(name.Name(), gonePrefix) {
			err = errors.Join(err, os.RemoveAll(filepath.Join(base, name.Name())))
		}
	}
	return err
}

// check tells why a base directory must not be used: who else can write there could put another directory in the place of this
// process'.
func check(base string) error {
	info, err := os.Lstat(base)
	if err != nil {
		return fmt.Errorf("look at the base of run directories: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("the base of run directories %s is no directory; remove it, or name another one with --run-dir", base)
	}
	owner := -1
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		owner = int(stat.Uid)
	}
	return judge(base, info.Mode().Perm(), owner, os.Geteuid())
}

func judge(base string, mode fs.FileMode, owner, self int) error {
	const othersWrite = 0o022
	switch {
	case owner != self:
		return fmt.Errorf("the base of run directories %s belongs to the user %d, and not to %d, who this process is; name another one with --run-dir, such as a new one in it",
			base, owner, self)
	case mode&othersWrite != 0:
		return fmt.Errorf("the base of run directories %s may be written by its group or by others (mode %04o); chmod 0700 it, or name another one with --run-dir, such as a new one in it",
			base, mode)
	default:
		return nil
	}
}
