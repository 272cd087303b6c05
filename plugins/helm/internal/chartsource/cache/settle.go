package cache

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	// ownPrefix begins the names of the directories of processes.
	ownPrefix = "process-"
	// lockName is the file in such a directory that its process has locked, and in the directory above the one that is locked while
	// directories are made and removed.
	lockName = "lock"
)

// settle makes a directory of the process's own below dir and returns its name and the file that it has locked in it.
func settle(dir string) (string, *os.File, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return "", nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return "", nil, err
	}
	defer root.Close() //nolint:errcheck // nothing was written through it that a later error could tell of
	// Without this lock another process could take a directory for a leftover that is made but not locked yet.
	guard, err := lockFile(root, lockName, os.O_CREATE, unix.LOCK_EX)
	if err != nil {
		return "", nil, fmt.Errorf("lock: %w", err)
	}
	defer guard.Close() //nolint:errcheck // closing ends the lock in any case
	if err := sweep(root); err != nil {
		return "", nil, fmt.Errorf("remove leftovers: %w", err)
	}
	name := ownPrefix + random()
	if err := root.Mkdir(name, 0o700); err != nil {
		return "", nil, err
	}
	lock, err := lockFile(root, name+"/"+lockName, os.O_CREATE, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return "", nil, fmt.Errorf("lock: %w", err)
	}
	return name, lock, nil
}

// sweep removes the directories of processes that are gone, and nothing else.
func sweep(root *os.Root) error {
	dir, err := root.Open(".")
	if err != nil {
		return err
	}
	defer dir.Close() //nolint:errcheck // it was only read
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !strings.HasPrefix(name, ownPrefix) {
			continue
		}
		// The file is not made here: its process may be removing the directory, which has to stay empty then.
		lock, err := lockFile(root, name+"/"+lockName, 0, unix.LOCK_EX|unix.LOCK_NB)
		if errors.Is(err, unix.EWOULDBLOCK) || errors.Is(err, os.ErrPermission) {
			continue // its process is alive, or it is somebody else's
		}
		// Anything else that cannot be locked is not held either: a process has locked its directory before others can look.
		err = root.RemoveAll(name)
		if lock != nil {
			err = errors.Join(err, lock.Close())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// lockFile opens a file, with O_CREATE also one that is not there yet, and locks it until it is closed.
func lockFile(root *os.Root, name string, create, how int) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDWR|create, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		// A signal, such as those of Go's own scheduler, interrupts the wait.
		switch err := unix.Flock(int(f.Fd()), how); {
		case err == nil:
			return f, nil
		case !errors.Is(err, unix.EINTR):
			return nil, errors.Join(err, f.Close())
		}
	}
}
