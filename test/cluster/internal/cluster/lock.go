package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// lockTimeout is longer than any work that needs the lock takes.
const lockTimeout = 24 * time.Hour

// lock takes the lock on a directory, which the kernel drops when its holder ends, however it ends. It waits for it
// until the context ends, and says so first. The error is fs.ErrNotExist if the directory is not there, or no longer
// when the lock is free.
func lock(ctx context.Context, dir string, waiting func()) (unlock func(), err error) {
	file, err := os.Open(dir)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	tryLock := func() error { return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }
	if err = tryLock(); err != nil {
		waiting()
		err = poll(ctx, lockTimeout, tryLock)
	}
	// If the last holder has removed the directory, a lock on it excludes nobody.
	if err == nil {
		err = sameAs(file, dir)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("lock %s: %w", dir, err), file.Close())
	}
	return func() { _ = file.Close() }, nil
}

func sameAs(file *os.File, path string) error {
	held, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !os.SameFile(held, named) {
		return fmt.Errorf("it was replaced: %w", fs.ErrNotExist)
	}
	return nil
}
