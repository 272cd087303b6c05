package fetch

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"
)

const (
	cacheBytes = 20
	cacheAge   = time.Hour
)

func newTestCache(t *testing.T, dir string) (*cache, *clocktesting.FakePassiveClock) {
	t.Helper()
	clock := clocktesting.NewFakePassiveClock(time.Unix(1e9, 0))
	c, err := newCache(Config{Dir: dir, MaxBytes: cacheBytes, MaxAge: cacheAge, Clock: clock})
	if err != nil {
		t.Fatal(err)
	}
	return c, clock
}

// put stores so many bytes.
func put(t *testing.T, c *cache, content byte, size int) *File {
	t.Helper()
	f, err := c.store(bytes.NewReader(bytes.Repeat([]byte{content}, size)), cacheBytes)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// Rule (SECURITY.md#secrets): Files of downloads can be read by the plugin's user alone.
func TestCacheFilesArePrivate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	c, _ := newTestCache(t, dir)
	f := put(t, c, 'a', 5)
	for path, want := range map[string]fs.FileMode{f.Path: 0o600, filepath.Dir(f.Path): 0o700, dir: 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("expected %s to have the mode %v, but found %v and %v", path, want, info.Mode(), err)
		}
	}
	if err := c.close(); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("expected nothing to be left, but found %v and %v", left, err)
	}
}

// TestCacheBounds: what nobody uses goes when it is too old or too much, the one that was used longest ago first.
func TestCacheBounds(t *testing.T) {
	t.Parallel()
	c, clock := newTestCache(t, t.TempDir())
	isThere := func(f *File, want bool) {
		t.Helper()
		_, err := os.Stat(f.Path)
		found := c.get(f.Digest)
		if (found != nil) != want || errors.Is(err, fs.ErrNotExist) == want {
			t.Errorf("expected the file to be there: %t, but found %v and %v", want, found, err)
		}
		if found != nil {
			c.release(found, 1)
		}
	}
	inUse, first, second := put(t, c, 'u', 5), put(t, c, 'a', 5), put(t, c, 'b', 5)
	c.release(second, 1)
	clock.SetTime(clock.Now().Add(time.Minute))
	c.release(first, 1)
	clock.SetTime(clock.Now().Add(time.Minute))
	third := put(t, c, 'c', 10)
	isThere(second, false)
	isThere(first, true)
	if again := put(t, c, 'u', 5); again != inUse {
		t.Errorf("expected the same content to be the same file, but found %+v", again)
	}
	c.release(inUse, 2)
	clock.SetTime(clock.Now().Add(cacheAge))
	c.release(third, 1)
	for f, want := range map[*File]bool{inUse: false, first: false, third: true} {
		isThere(f, want)
	}
	if c.size != third.size {
		t.Errorf("expected %d bytes, but found %d", third.size, c.size)
	}
	// A disk that is full takes along what nobody uses.
	if err := c.failed("write to", syscall.ENOSPC); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("expected the error, but found %v", err)
	}
	isThere(third, false)
}

// TestCacheSpoiled: a file that somebody has removed or cut is not handed out, and can be stored anew.
func TestCacheSpoiled(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(path string) error{
		"gone": os.Remove,
		"cut":  func(path string) error { return os.Truncate(path, 1) },
	} {
		c, _ := newTestCache(t, t.TempDir())
		old := put(t, c, 'a', 5)
		if err := spoil(old.Path); err != nil {
			t.Fatal(err)
		}
		if found := c.get(old.Digest); found != nil {
			t.Errorf("%s: expected nothing, but found %+v", name, found)
		}
		fresh := put(t, c, 'a', 5)
		c.release(old, 1) // which must not take the new file along
		if found := c.get(fresh.Digest); found != fresh || c.size != 5 {
			t.Errorf("%s: expected the new file, but found %+v and %d bytes", name, found, c.size)
		}
	}
}

// isNothing is a check for what has no content.
func isNothing(_ string, begin []byte) error {
	if len(begin) == 0 {
		return nil
	}
	return Errorf(Invalid, "expected nothing")
}

// TestCacheRefuses: what is refused leaves nothing.
func TestCacheRefuses(t *testing.T) {
	t.Parallel()
	c, _ := newTestCache(t, t.TempDir())
	if _, err := c.store(bytes.NewReader(make([]byte, 6)), 5); !isKind(err, TooLarge) {
		t.Errorf("expected it to be too large, but found %v", err)
	}
	if _, err := c.store(bytes.NewReader([]byte("x")), 5, isNothing); !isKind(err, Invalid) {
		t.Errorf("expected it to be refused, but found %v", err)
	}
	if left, err := os.ReadDir(c.dir); err != nil || len(left) > 0 {
		t.Errorf("expected nothing to be left, but found %v and %v", left, err)
	}
}

func isKind(err error, kind Kind) bool {
	var f *Error
	return errors.As(err, &f) && f.Kind == kind
}

// panicking is a reader with a mistake.
type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("oops") } //nolint:forbidigo // see above

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	f, err := New(Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.File(t.Context(), "a", func(context.Context, Memo) (Memo, *File, error) {
		panic("oops") //nolint:forbidigo // somebody else's mistake
	})
	if !isKind(err, Panic) {
		t.Errorf("expected the panic as an error, but found %v", err)
	}
	_, err = f.File(t.Context(), "b", func(context.Context, Memo) (Memo, *File, error) {
		file, err := f.Store(panicking{}, 5)
		return Memo{}, file, err
	})
	left, dirErr := os.ReadDir(f.cache.dir)
	if !isKind(err, Panic) || dirErr != nil || len(left) > 0 || f.cache.unfinished != 0 {
		t.Errorf("expected nothing to be left, but found %v, %d bytes and %v", left, f.cache.unfinished, err)
	}
}
