package cache_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	clocktesting "k8s.io/utils/clock/testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
)

// holdVariable makes the test's own binary a process that holds a cache in the directory that it names.
const holdVariable = "PERGOLA_TEST_HOLD_CACHE"

func TestMain(m *testing.M) {
	if dir := os.Getenv(holdVariable); dir != "" {
		hold(dir)
	}
	os.Exit(m.Run())
}

// hold makes a cache with a file in it, tells its path and waits to be killed.
func hold(dir string) {
	c, err := cache.New(cache.Config{Dir: dir, MaxBytes: 1 << 20, MaxAge: time.Hour})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	entry, err := put(c, []byte("held"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stdout, entry.Path())
	select {}
}

func put(c *cache.Cache, content []byte) (*cache.Entry, error) {
	w, err := c.Create(int64(len(content)))
	if err != nil {
		return nil, err
	}
	defer w.Abort()
	if _, err := w.Write(content); err != nil {
		return nil, err
	}
	return w.Commit()
}

func mustPut(t testing.TB, c *cache.Cache, content []byte) *cache.Entry {
	t.Helper()
	entry, err := put(c, content)
	if err != nil {
		t.Fatal(err)
	}
	return entry
}

func newCache(t testing.TB, config cache.Config) *cache.Cache {
	t.Helper()
	if config.Dir == "" {
		config.Dir = t.TempDir()
	}
	c, err := cache.New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
	return c
}

func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return "sha256:" + hex.EncodeToString(sum[:])
}

func TestPutAndGet(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "not", "there", "yet")
	c := newCache(t, cache.Config{Dir: dir, MaxBytes: 100, MaxAge: time.Hour})
	entry := mustPut(t, c, []byte("content"))
	again, err := c.Get(digestOf([]byte("content")))
	if err != nil || again == nil || again.Path() != entry.Path() || again.Digest() != digestOf([]byte("content")) || again.Size() != 7 {
		t.Fatalf("expected the file, but found %+v and %v", again, err)
	}
	content, err := os.ReadFile(again.Path())
	if err != nil || string(content) != "content" {
		t.Errorf("expected the content, but found %q and %v", content, err)
	}
	opened, err := again.Open()
	if err != nil {
		t.Fatal(err)
	}
	if err := opened.Close(); err != nil {
		t.Error(err)
	}
	for path, want := range map[string]fs.FileMode{entry.Path(): 0o600, filepath.Dir(entry.Path()): 0o700, dir: 0o700} {
		info, err := os.Stat(path)
		if err != nil || info.Mode().Perm() != want {
			t.Errorf("expected %s to have the mode %v, but found %v and %v", path, want, info.Mode(), err)
		}
	}
	sum := digestOf([]byte("content"))[7:]
	for _, digest := range []string{
		"", sum, "sha256:", "sha256:" + strings.ToUpper(sum), "sha256:../" + sum[3:], "sha512:" + sum, "sha256:" + strings.Repeat("0", 64), "sha256:lock",
	} {
		if entry, err := c.Get(digest); entry != nil || err != nil {
			t.Errorf("expected nothing for %q, but found %v and %v", digest, entry, err)
		}
	}
}

func TestLimitAndAbort(t *testing.T) {
	t.Parallel()
	c := newCache(t, cache.Config{MaxBytes: 100, MaxAge: time.Hour})
	w, err := c.Create(5)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("1234")); err != nil || w.Digest() != digestOf([]byte("1234")) {
		t.Errorf("expected the digest so far, but found %s and %v", w.Digest(), err)
	}
	var large *cache.TooLargeError
	if _, err := w.Write([]byte("56")); !errors.As(err, &large) || large.Limit != 5 {
		t.Errorf("expected the limit, but found %v", err)
	}
	w.Abort()
	w.Abort()
	if entry := mustPut(t, c, nil); len(files(t, filepath.Dir(entry.Path()))) != 2 {
		t.Errorf("expected the file and the lock, but found %v", files(t, filepath.Dir(entry.Path())))
	}
}

// files returns the names of the files in a directory.
func files(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// TestSpoiledFiles: what is not what it should be is not handed out, and can be had anew.
func TestSpoiledFiles(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(string) error{
		"Changed": func(path string) error { return os.WriteFile(path, []byte("spoiled"), 0o600) },
		"Gone":    os.Remove,
		"Linked": func(path string) error {
			return errors.Join(os.Remove(path), os.Symlink("/etc/hostname", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			// Nothing would stay that is not in use.
			c := newCache(t, cache.Config{MaxBytes: 1, MaxAge: time.Hour})
			old := mustPut(t, c, []byte("content"))
			if err := spoil(old.Path()); err != nil {
				t.Fatal(err)
			}
			if entry, err := c.Get(old.Digest()); entry != nil || name != "Linked" && err != nil {
				t.Errorf("expected nothing, but found %v and %v", entry, err)
			}
			fresh := mustPut(t, c, []byte("content"))
			old.Release() // which must not take the new file along
			again, err := c.Get(fresh.Digest())
			if err != nil || again == nil {
				t.Errorf("expected the new file, but found %v and %v", again, err)
			}
		})
	}
}

func TestAgesWithoutBeingUsed(t *testing.T) {
	t.Parallel()
	clock := clocktesting.NewFakeClock(time.Unix(1e9, 0))
	c := newCache(t, cache.Config{MaxBytes: 100, MaxAge: time.Hour, Clock: clock})
	used, unused := mustPut(t, c, []byte("used")), mustPut(t, c, []byte("unused"))
	unused.Release()
	for deadline := time.Now().Add(time.Minute); ; {
		clock.Step(20 * time.Minute) // the ticker is what removes it, some time after the age is reached
		if _, err := os.Stat(unused.Path()); errors.Is(err, fs.ErrNotExist) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("expected a file that nobody uses to go by itself")
		}
		time.Sleep(time.Millisecond)
	}
	if _, err := os.Stat(used.Path()); err != nil {
		t.Errorf("expected a file in use to stay, but found %v", err)
	}
}

// TestProcesses: a process removes what others have left, and nothing of those that are alive.
func TestProcesses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	foreign := filepath.Join(dir, "of-somebody-else")
	if err := os.WriteFile(foreign, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	executable, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	process := exec.CommandContext(t.Context(), executable)
	process.Env = append(os.Environ(), holdVariable+"="+dir)
	process.Stderr = os.Stderr
	output, err := process.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	var path string
	if _, err := fmt.Fscanln(output, &path); err != nil {
		t.Fatal(err)
	}
	newOne := func() *cache.Cache {
		c, err := cache.New(cache.Config{Dir: dir, MaxBytes: 1, MaxAge: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	first := newOne()
	if content, err := os.ReadFile(path); err != nil || string(content) != "held" {
		t.Errorf("expected the file of a process that is alive to stay, but found %q and %v", content, err)
	}
	if err := process.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = process.Wait() // it was killed
	second := newOne()
	if _, err := os.Stat(filepath.Dir(path)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("expected the leftovers of a process that is gone to go, but found %v", err)
	}
	if err := errors.Join(first.Close(), first.Close(), second.Close()); err != nil {
		t.Error(err)
	}
	if got := files(t, dir); !slices.Equal(got, []string{"lock", "of-somebody-else"}) {
		t.Errorf("expected only what is not the cache's, but found %v", got)
	}
}

func TestManyStartAtOnce(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var starts sync.WaitGroup
	for i := range 20 {
		starts.Go(func() {
			c, err := cache.New(cache.Config{Dir: dir, MaxBytes: 100, MaxAge: time.Hour})
			if err != nil {
				t.Error(err)
				return
			}
			entry, err := put(c, fmt.Append(nil, i))
			if err != nil {
				t.Error(err)
				return
			}
			if got, err := c.Get(entry.Digest()); got == nil || err != nil {
				t.Errorf("expected the file to stay, but found %v and %v", got, err)
			}
			if err := c.Close(); err != nil {
				t.Error(err)
			}
		})
	}
	starts.Wait()
}

func TestClosed(t *testing.T) {
	t.Parallel()
	c := newCache(t, cache.Config{MaxBytes: 100, MaxAge: time.Hour})
	entry := mustPut(t, c, []byte("content"))
	w, err := c.Create(1)
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	entry.Release()
	var disk *cache.Error
	if _, err := w.Commit(); !errors.As(err, &disk) {
		t.Errorf("expected an error after the end, but found %v", err)
	}
	if _, err := c.Create(1); !errors.As(err, &disk) {
		t.Errorf("expected an error after the end, but found %v", err)
	}
	if found, err := c.Get(entry.Digest()); found != nil || err != nil {
		t.Errorf("expected nothing after the end, but found %v and %v", found, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for _, config := range []cache.Config{{MaxBytes: 1, MaxAge: 1}, {Dir: t.TempDir(), MaxAge: 1}, {Dir: t.TempDir(), MaxBytes: 1}} {
		if c, err := cache.New(config); err == nil {
			t.Errorf("expected an error for %+v, but found %v", config, c.Close())
		}
	}
}

func TestErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	for err, want := range map[error]string{
		syscall.ENOSPC: "more space", syscall.EDQUOT: "more space", syscall.EROFS: "write to", syscall.EACCES: "write to", syscall.EIO: "input/output error",
	} {
		e := &cache.Error{Operation: "write to", Dir: "/cache", Err: &fs.PathError{Op: "write", Path: "x", Err: err}}
		if !strings.Contains(e.Error(), want) || !strings.Contains(e.Error(), "/cache") || !errors.Is(e, err) {
			t.Errorf("expected %q in %v", want, e)
		}
	}
}
