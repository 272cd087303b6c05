package fetch

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"k8s.io/utils/clock"
)

// cache keeps files by their digest, in a directory of its own and for its own lifetime, within bounds of size and
// age. Files in use stay even beyond these bounds, so the size can exceed its bound. Unfinished files count, too.
type cache struct {
	dir      string
	maxBytes int64
	maxAge   time.Duration
	clock    clock.PassiveClock

	mu         sync.Mutex
	files      map[string]*File
	size       int64
	unfinished int64 // bytes of unfinished files
}

// File is a file of the cache. It must not be changed, and is there until its release.
type File struct {
	// Path of the file, and the Digest of its content, such as "sha256:…".
	Path, Digest string

	cache *cache
	size  int64
	// users counts the callers before their release, and used is the time of the last release.
	users int
	used  time.Time
}

// newCache makes the directory below another one.
func newCache(config Config) (*cache, error) {
	err := os.MkdirAll(config.Dir, 0o700)
	var dir string
	if err == nil {
		dir, err = os.MkdirTemp(config.Dir, "process-")
	}
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		return nil, fmt.Errorf("make cache %s: %w; give the plugin a writable directory", config.Dir, err)
	}
	return &cache{
		dir: dir, maxBytes: config.MaxBytes, maxAge: config.MaxAge, clock: config.Clock, files: map[string]*File{},
	}, nil
}

// close removes all files, also those in use.
func (c *cache) close() error {
	if err := os.RemoveAll(c.dir); err != nil {
		return fmt.Errorf("remove cache: %w", err)
	}
	return nil
}

// get returns the file with a digest, to be released; nil for none.
func (c *cache) get(digest string) *File {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[digest]
	if f == nil {
		return nil
	}
	if info, err := os.Stat(f.Path); err != nil || info.Size() != f.size {
		c.remove(f)
		return nil
	}
	f.users++
	return f
}

// algorithm is the prefix of all digests here.
const algorithm = "sha256:"

// sniffed is the number of first bytes passed to a Check.
const sniffed = 512

// Check checks the digest and the first bytes of a new file before the cache has it. An error is an *Error. Nil
// accepts any file.
type Check func(digest string, begin []byte) error

// store reads a file into the cache and returns it, to be released. The file is visible once complete. An *Error of
// the reader or of a check is returned as it is.
func (c *cache) store(from io.Reader, limit int64, checks ...Check) (*File, error) {
	w, err := os.CreateTemp(c.dir, "new-*")
	if err != nil {
		return nil, c.failed("write to", err)
	}
	// After add there is nothing under this name; otherwise the file goes with the directory at the latest.
	defer func() { _ = os.Remove(w.Name()) }()
	digest, size, err := c.fill(w, from, limit, checks)
	if err == nil {
		var f *File
		if f, err = c.add(w.Name(), digest, size); err == nil {
			return f, nil
		}
	}
	if errors.As(err, new(*Error)) {
		return nil, err
	}
	return nil, c.failed("write to", err)
}

// fill writes a new file and checks it. Its bytes count until it returns.
func (c *cache) fill(
	w *os.File, from io.Reader, limit int64, checks []Check,
) (digest string, size int64, err error) {
	counted := &unfinished{cache: c}
	defer counted.done()
	sum := sha256.New()
	size, err = io.Copy(io.MultiWriter(w, sum), io.LimitReader(io.TeeReader(from, counted), limit+1))
	begin := make([]byte, min(size, sniffed))
	if err == nil {
		_, err = w.ReadAt(begin, 0)
	}
	if err := errors.Join(err, w.Close()); err != nil {
		return "", 0, err
	}
	if size > limit {
		return "", 0, tooLarge(limit)
	}
	digest = algorithm + hex.EncodeToString(sum.Sum(nil))
	for _, check := range checks {
		if check == nil {
			continue
		}
		if err := check(digest, begin); err != nil {
			return "", 0, err
		}
	}
	return digest, size, nil
}

// add gives a new file its name. It takes the place of an existing one: both are the same.
func (c *cache) add(path, digest string, size int64) (*File, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.files[digest]
	if f == nil {
		f = &File{Path: filepath.Join(c.dir, digest[len(algorithm):]), Digest: digest, cache: c, size: size}
	}
	if err := os.Rename(path, f.Path); err != nil {
		return nil, err
	}
	if c.files[digest] == nil {
		c.files[digest] = f
		c.size += f.size
	}
	f.users++
	c.trim(c.maxBytes)
	return f, nil
}

// share adds users to a file.
func (c *cache) share(f *File, users int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.users += users
}

// Release removes a user of a file. Each user calls it once.
func (f *File) Release() { f.cache.release(f, 1) }

// release removes users of a file.
func (c *cache) release(f *File, users int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.users -= users
	f.used = c.clock.Now()
	c.trim(c.maxBytes)
}

// unfinished counts the written bytes of a file before the cache has it. Its error is about missing room.
type unfinished struct {
	cache *cache
	bytes int64
}

// Write implements io.Writer.
func (u *unfinished) Write(p []byte) (int, error) {
	c, n := u.cache, int64(len(p))
	c.mu.Lock()
	defer c.mu.Unlock()
	others := c.unfinished > u.bytes
	c.unfinished, u.bytes = c.unfinished+n, u.bytes+n
	c.trim(c.maxBytes)
	if others && c.size+c.unfinished > c.maxBytes { // one at a time always finds room
		return 0, Errorf(CacheFailed, "cache %s is full: all files are in use or being downloaded; "+
			"the download is retried, or have the operator of the deployer raise the size of its cache", c.dir)
	}
	return len(p), nil
}

// done subtracts the counted bytes: the file is gone, or one of the cache.
func (u *unfinished) done() {
	u.cache.mu.Lock()
	defer u.cache.mu.Unlock()
	u.cache.unfinished -= u.bytes
}

// trim removes unused files: old ones, and the longest unused while the rest is too large.
func (c *cache) trim(maxBytes int64) {
	byUse := func(a, b *File) int { return a.used.Compare(b.used) }
	for _, f := range slices.SortedFunc(maps.Values(c.files), byUse) {
		if f.users == 0 && (c.size+c.unfinished > maxBytes || c.clock.Since(f.used) >= c.maxAge) {
			c.remove(f)
		}
	}
}

// remove removes a file. If the disk keeps it, it goes with the directory.
func (c *cache) remove(f *File) {
	delete(c.files, f.Digest)
	c.size -= f.size
	_ = os.Remove(f.Path) // see above
}

// failed explains an error of the disk. A full disk loses all unused files, to make room for the next try.
func (c *cache) failed(operation string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.trim(0)
	}
	return Errorf(CacheFailed, "%s cache %s: %w; give the plugin a writable directory with room for the size of "+
		"the cache", operation, c.dir, err)
}

func tooLarge(limit int64) error {
	return Errorf(TooLarge, "it is larger than the limit of %d bytes; use a smaller one, or have the operator of "+
		"the deployer raise the limit", limit)
}
