// Package filelock excludes processes from each other by a lock on a file or
// directory, which the kernel drops when its holder ends, however it ends.
package filelock

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"syscall"
	"time"
)

// retryInterval is how often a taken lock is tried again. The system call that
// waits for a lock cannot be cancelled by a context.
const retryInterval = 100 * time.Millisecond

// Lock is a held lock.
type Lock struct{ file *os.File }

// Acquire takes the lock on the existing file or directory at path and waits
// for it until the context ends. When it has to wait it calls waiting once.
// The error is fs.ErrNotExist if there is nothing at path, or no longer when
// the lock is free. The caller releases the lock.
func Acquire(ctx context.Context, path string, waiting func()) (*Lock, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("lock: %w", err)
	}
	if err := acquire(ctx, file, waiting); err != nil {
		_ = file.Close()
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	return &Lock{file: file}, nil
}

// Release gives the lock up. What it was on may have been removed meanwhile.
func (l *Lock) Release() error {
	if err := l.file.Close(); err != nil {
		return fmt.Errorf("release lock: %w", err)
	}
	return nil
}

func acquire(ctx context.Context, file *os.File, waiting func()) error {
	ticker := time.NewTicker(retryInterval)
	defer ticker.Stop()
	for announced := false; ; {
		err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return stillThere(file)
		}
		if !errors.Is(err, syscall.EWOULDBLOCK) && !errors.Is(err, syscall.EINTR) {
			return err
		}
		if !announced {
			announced = true
			waiting()
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// stillThere fails if the last holder removed the file, in which case a lock
// on it excludes nobody.
func stillThere(file *os.File) error {
	held, err := file.Stat()
	if err != nil {
		return err
	}
	named, err := os.Stat(file.Name())
	if err != nil {
		return err
	}
	if !os.SameFile(held, named) {
		return fmt.Errorf("it was replaced: %w", fs.ErrNotExist)
	}
	return nil
}
