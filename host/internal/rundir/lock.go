package rundir

import (
	"context"
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

const (
	// lockPause is how long who waits for the lock of the base directory leaves it alone.
	lockPause = 10 * time.Millisecond
	// lockPatience is how long the lock is waited for: whoever has it needs a moment, unless it is stopped.
	lockPatience = 10 * time.Second
)

// tryLock takes the lock of a directory. It ends when the file is closed, or with the process; children do not inherit it. It reports
// false if somebody else has it.
func tryLock(path string) (lock *os.File, free bool, err error) {
	lock, err = os.OpenFile(path, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return nil, false, err
	}
	err = syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return lock, true, nil
	}
	_ = lock.Close() // it was only read
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return nil, false, nil
	}
	return nil, false, fmt.Errorf("lock %s: %w", path, err)
}

// underLock does something while nobody else looks at the directories in base, or changes them.
func underLock[T any](ctx context.Context, base string, do func() (T, error)) (result T, err error) {
	if err := check(base); err != nil {
		return result, err
	}
	ctx, cancel := context.WithTimeout(ctx, lockPatience)
	defer cancel()
	for {
		lock, free, err := tryLock(base)
		if err != nil {
			return result, err
		}
		if free {
			defer func() { _ = lock.Close() }() // it was only read
			return do()
		}
		select {
		case <-ctx.Done():
			return result, fmt.Errorf("wait for the lock of %s, which another process holds: %w", base, ctx.Err())
		case <-time.After(lockPause):
		}
	}
}
