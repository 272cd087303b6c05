package cache

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"os"
	"syscall"
)

// Error is a trouble with the disk.
type Error struct {
	// Operation is what could not be done, as a verb.
	Operation string
	// Dir is where.
	Dir string
	Err error
}

// Error says what can be done about it.
func (e *Error) Error() string {
	text := fmt.Sprintf("%s chart cache %s: %v", e.Operation, e.Dir, e.Err)
	switch {
	case errors.Is(e.Err, syscall.ENOSPC), errors.Is(e.Err, syscall.EDQUOT):
		return text + "; give the directory more space, or the cache a smaller size"
	case errors.Is(e.Err, syscall.EROFS), errors.Is(e.Err, os.ErrPermission):
		return text + "; the plugin needs a directory that it can write to"
	default:
		return text
	}
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// TooLargeError says that more was written than is allowed.
type TooLargeError struct {
	// Limit in bytes.
	Limit int64
}

// Error names the limit.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("larger than the %d bytes allowed", e.Limit)
}

// Writer writes a file that nobody sees before it is complete. Either Commit or Abort ends it. It is not for concurrent use.
type Writer struct {
	cache *Cache
	name  string
	file  *os.File
	sum   hash.Hash
	size  int64
	limit int64
	ended bool
}

// Create begins a file of not more than limit bytes.
func (c *Cache) Create(limit int64) (*Writer, error) {
	c.mu.Lock()
	c.writers++
	name := fmt.Sprintf("new-%d", c.writers)
	c.mu.Unlock()
	f, err := c.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, c.failed("create file in", err)
	}
	return &Writer{cache: c, name: name, file: f, sum: sha256.New(), limit: limit}, nil
}

// Write fails with *TooLargeError beyond the limit, and with *Error if the disk does not take it.
func (w *Writer) Write(p []byte) (int, error) {
	if int64(len(p)) > w.limit-w.size {
		return 0, &TooLargeError{Limit: w.limit}
	}
	n, err := w.file.Write(p)
	w.sum.Write(p[:n])
	w.size += int64(n)
	if err != nil {
		return n, w.cache.failed("write to", err)
	}
	return n, nil
}

// Digest of what was written so far.
func (w *Writer) Digest() string { return algorithm + hex.EncodeToString(w.sum.Sum(nil)) }

// Commit adds the file to the cache and returns it in use. A file that is there already stays the same.
func (w *Writer) Commit() (*Entry, error) {
	w.ended = true
	if err := w.file.Close(); err != nil {
		w.cache.remove(w.name)
		return nil, w.cache.failed("write to", err)
	}
	name := hex.EncodeToString(w.sum.Sum(nil))
	c := w.cache
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, &Error{Operation: "write to", Dir: c.dir, Err: os.ErrClosed}
	}
	// The new file takes the place of one that is there: both are the same, unless the old one is spoiled.
	if err := c.root.Rename(w.name, name); err != nil {
		c.remove(w.name)
		return nil, &Error{Operation: "write to", Dir: c.dir, Err: err}
	}
	f, ok := c.files[name]
	if !ok {
		f = &file{name: name, size: w.size}
		c.files[name] = f
		c.size += f.size
	}
	c.use(f)
	c.trim(c.config.MaxBytes)
	return &Entry{cache: c, file: f}, nil
}

// Abort throws away what was written. After Commit it does nothing.
func (w *Writer) Abort() {
	if w.ended {
		return
	}
	w.ended = true
	_ = w.file.Close() // nobody wants it
	w.cache.remove(w.name)
}

// failed explains an error of the disk. When that is full, everything goes that nobody uses, so that the next try finds room.
func (c *Cache) failed(operation string, err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		c.mu.Lock()
		c.trim(0)
		c.mu.Unlock()
	}
	return &Error{Operation: operation, Dir: c.dir, Err: err}
}
