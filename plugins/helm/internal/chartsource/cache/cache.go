// Package cache keeps files on disk by their digest, within bounds of size and age.
//
// Each process has a directory of its own within the one that it is given, which nobody else writes to or reads from, and which is gone
// when the process is gone: it holds a lock on a file in it, and whoever comes next removes the directories that nobody holds. So processes
// do not hurt each other, the leftovers of a crash go away, and no file is trusted that this process has not written. What the files are
// called comes from the digests of their contents alone.
package cache

import (
	"container/list"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Config sets a cache up.
type Config struct {
	// Dir is created if it does not exist. Several processes may use it.
	Dir string
	// MaxBytes bounds the size of all files together. Files in use count but stay, so the sum can be above it. Positive.
	MaxBytes int64
	// MaxAge is how long a file stays that nobody uses. Positive.
	MaxAge time.Duration
	// Clock defaults to that of the system.
	Clock clock.WithTicker
}

// Cache keeps files. Its methods can be called concurrently.
type Cache struct {
	config Config
	// dir is the process's own directory, for paths; root is the same for everything else.
	dir  string
	root *os.Root
	lock *os.File

	stop    chan struct{}
	stopped sync.WaitGroup

	mu     sync.Mutex
	files  map[string]*file
	unused *list.List // of *file, the one used last at the front
	size   int64
	// writers counts those that were ever made, for the names of their files.
	writers uint64
	closed  bool
}

// file is a file of the cache. Its digest in hex is its name.
type file struct {
	name string
	size int64
	// users counts the entries; with none the file is in the list of those unused, since idle.
	users int
	place *list.Element
	idle  time.Time
	// lost says that the file is not the cache's any more; its name may belong to another one.
	lost bool
}

// New makes the process's directory and removes those of processes that are gone.
func New(config Config) (*Cache, error) {
	if config.Dir == "" || config.MaxBytes <= 0 || config.MaxAge <= 0 {
		return nil, errors.New("make chart cache: directory, size and age must be set")
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	dir, err := filepath.Abs(config.Dir)
	if err != nil {
		return nil, fmt.Errorf("make chart cache: %w", err)
	}
	name, lock, err := settle(dir)
	if err != nil {
		return nil, &Error{Operation: "make", Dir: dir, Err: err}
	}
	c := &Cache{
		config: config, dir: filepath.Join(dir, name), lock: lock,
		stop: make(chan struct{}), files: map[string]*file{}, unused: list.New(),
	}
	if c.root, err = os.OpenRoot(c.dir); err != nil {
		return nil, errors.Join(&Error{Operation: "open", Dir: c.dir, Err: err}, lock.Close())
	}
	c.stopped.Go(c.age)
	return c, nil
}

// Close removes all files, also those in use.
func (c *Cache) Close() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return nil
	}
	c.closed = true
	c.mu.Unlock()
	close(c.stop)
	c.stopped.Wait()
	// The lock goes last: a process that starts now leaves the directory alone until then, and removes what could not be removed here.
	if err := errors.Join(c.root.Close(), os.RemoveAll(c.dir), c.lock.Close()); err != nil {
		return &Error{Operation: "remove", Dir: c.dir, Err: err}
	}
	return nil
}

// age removes files that nobody has used for long, also when nothing else happens.
func (c *Cache) age() {
	ticker := c.config.Clock.NewTicker(max(c.config.MaxAge/4, time.Second))
	defer ticker.Stop()
	for {
		select {
		case <-c.stop:
			return
		case <-ticker.C():
			c.mu.Lock()
			c.trim(c.config.MaxBytes)
			c.mu.Unlock()
		}
	}
}

// Get returns the file with a digest, such as "sha256:…"; nil if it is not there. Its content is read and compared with the digest: a
// chart is small, and a file that the disk has spoiled, or somebody else, would otherwise be deployed.
func (c *Cache) Get(digest string) (*Entry, error) {
	name, ok := nameOf(digest)
	if !ok {
		return nil, nil //nolint:nilnil // there is no such file
	}
	c.mu.Lock()
	f, ok := c.files[name]
	if !ok || c.closed {
		c.mu.Unlock()
		return nil, nil //nolint:nilnil // there is no such file
	}
	c.use(f)
	c.mu.Unlock()
	entry := &Entry{cache: c, file: f}
	switch found, err := c.hash(name); {
	case errors.Is(err, fs.ErrNotExist) || err == nil && found != name:
		c.lose(f)
		entry.Release()
		return nil, nil //nolint:nilnil // there was one, but it is not what it should be
	case err != nil:
		entry.Release()
		return nil, &Error{Operation: "read", Dir: c.dir, Err: err}
	}
	return entry, nil
}

func (c *Cache) hash(name string) (string, error) {
	content, err := c.root.Open(name)
	if err != nil {
		return "", err
	}
	defer content.Close() //nolint:errcheck // it was only read
	sum := sha256.New()
	if _, err := io.Copy(sum, content); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}

// lose forgets a file that is spoiled. Its place is free for a good one.
func (c *Cache) lose(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.lost {
		return
	}
	c.forget(f)
	c.remove(f.name)
}

// forget takes a file out of the books.
func (c *Cache) forget(f *file) {
	f.lost = true
	c.size -= f.size
	delete(c.files, f.name)
	if f.place != nil {
		c.unused.Remove(f.place)
		f.place = nil
	}
}

// remove removes a file from the disk. One that stays is removed with the directory, at the latest by the next process.
func (c *Cache) remove(name string) {
	_ = c.root.Remove(name)
}

func (c *Cache) use(f *file) {
	f.users++
	if f.place != nil {
		c.unused.Remove(f.place)
		f.place = nil
	}
}

func (c *Cache) release(f *file) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f.users--
	if f.users > 0 || f.lost {
		return
	}
	f.idle = c.config.Clock.Now()
	f.place = c.unused.PushFront(f)
	c.trim(c.config.MaxBytes)
}

// trim removes files that nobody uses: those that are too old, and those used longest ago until the rest is not more than most.
func (c *Cache) trim(most int64) {
	if c.closed {
		return
	}
	now := c.config.Clock.Now()
	for e := c.unused.Back(); e != nil; e = c.unused.Back() {
		f, ok := e.Value.(*file)
		if !ok || c.size <= most && now.Sub(f.idle) < c.config.MaxAge {
			return
		}
		c.forget(f)
		c.remove(f.name)
	}
}

// Entry is a file in use. It stays until it is released.
type Entry struct {
	cache *Cache
	file  *file
	once  sync.Once
}

// Digest of the content, such as "sha256:…".
func (e *Entry) Digest() string { return algorithm + e.file.name }

// Size of the content in bytes.
func (e *Entry) Size() int64 { return e.file.size }

// Path of the file. It must not be changed.
func (e *Entry) Path() string { return filepath.Join(e.cache.dir, e.file.name) }

// Open opens the file for reading.
func (e *Entry) Open() (*os.File, error) {
	content, err := e.cache.root.Open(e.file.name)
	if err != nil {
		return nil, &Error{Operation: "read", Dir: e.cache.dir, Err: err}
	}
	return content, nil
}

// Clone returns another entry of the file, to be released by itself.
func (e *Entry) Clone() *Entry {
	e.cache.mu.Lock()
	defer e.cache.mu.Unlock()
	e.cache.use(e.file)
	return &Entry{cache: e.cache, file: e.file}
}

// Release says that the file is not used any more. Further calls do nothing.
func (e *Entry) Release() {
	e.once.Do(func() { e.cache.release(e.file) })
}

// algorithm is what all digests here begin with.
const algorithm = "sha256:"

// nameOf returns the name of the file with a digest. Nothing but a digest in its one spelling has a name.
func nameOf(digest string) (string, bool) {
	if len(digest) != len(algorithm)+2*sha256.Size || digest[:len(algorithm)] != algorithm {
		return "", false
	}
	name := digest[len(algorithm):]
	sum, err := hex.DecodeString(name)
	return name, err == nil && hex.EncodeToString(sum) == name
}

// random returns a name that nobody else has.
func random() string { return rand.Text() }
