package filelock_test

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/test/cluster/internal/filelock"
)

func TestSecondHolderWaitsForTheFirst(t *testing.T) {
	dir := t.TempDir()
	first := acquire(t, dir)
	waiting, second := make(chan struct{}), make(chan error, 1)
	go func() {
		lock, err := filelock.Acquire(t.Context(), dir, func() { close(waiting) })
		if err == nil {
			err = lock.Release()
		}
		second <- err
	}()
	<-waiting
	if err := first.Release(); err != nil {
		t.Fatal(err)
	}
	if err := <-second; err != nil {
		t.Errorf("second Acquire: %v", err)
	}
}

func TestWaitingEndsWithTheContext(t *testing.T) {
	dir := t.TempDir()
	lock := acquire(t, dir)
	defer func() { _ = lock.Release() }()
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := filelock.Acquire(ctx, dir, cancel); !errors.Is(err, context.Canceled) {
		t.Errorf("Acquire = %v, want context.Canceled", err)
	}
}

func TestLockOnWhatWasRemovedIsNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "dir")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	lock := acquire(t, dir)
	_, err := filelock.Acquire(t.Context(), dir, func() {
		if err := errors.Join(os.Remove(dir), lock.Release()); err != nil {
			t.Error(err)
		}
	})
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("Acquire = %v, want fs.ErrNotExist", err)
	}
}

func acquire(t *testing.T, path string) *filelock.Lock {
	t.Helper()
	lock, err := filelock.Acquire(t.Context(), path, func() { t.Error("a free lock makes wait") })
	if err != nil {
		t.Fatal(err)
	}
	return lock
}
