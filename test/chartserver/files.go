package chartserver

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Files serves files by their paths, and tells of each the ETag that belongs to its content.
type Files struct {
	*Server

	contents *contents
}

// NewFiles starts a server of files, which has none yet. The caller closes it.
func NewFiles(opts Options) (*Files, error) {
	if opts.Auth == Bearer {
		return nil, errors.New("start server of files: only registries have a token service")
	}
	c := &contents{files: map[string][]byte{}}
	server, err := start(opts, func(*http.Request) Kind { return File }, authorized(opts, c))
	if err != nil {
		return nil, err
	}
	return &Files{Server: server, contents: c}, nil
}

// Put has the server serve a file at a path, such as "charts/plain-1.0.0.tgz", and returns its URL. It replaces what was there.
func (f *Files) Put(path string, content []byte) (url string) {
	path = "/" + strings.TrimPrefix(path, "/")
	f.contents.put(path, content)
	return f.URL() + path
}

// Remove has the server not serve a file any more.
func (f *Files) Remove(path string) { f.contents.remove("/" + strings.TrimPrefix(path, "/")) }

// Paths returns the paths of all files.
func (f *Files) Paths() []string { return f.contents.paths() }

// contents are files by path, which begins with a slash.
type contents struct {
	mu    sync.Mutex
	files map[string][]byte
}

func (c *contents) put(path string, content []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.files[path] = bytes.Clone(content)
}

func (c *contents) get(path string) ([]byte, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	content, ok := c.files[path]
	return content, ok
}

func (c *contents) remove(path string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.files, path)
}

func (c *contents) paths() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Sorted(maps.Keys(c.files))
}

// ServeHTTP answers conditional requests and ranges as well.
func (c *contents) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET and HEAD", http.StatusMethodNotAllowed)
		return
	}
	content, ok := c.get(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	switch {
	case strings.HasSuffix(r.URL.Path, ".yaml"):
		w.Header().Set("Content-Type", "application/yaml")
	default:
		w.Header().Set("Content-Type", "application/octet-stream")
	}
	w.Header().Set("ETag", `"`+digestOf(content)+`"`)
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content))
}

// digestOf is the SHA-256 of something in hexadecimal.
func digestOf(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}
