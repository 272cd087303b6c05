package chartserver

import (
	"bytes"
	"fmt"
	"net/http"
	"slices"
	"sync"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/chart/loader"
	"sigs.k8s.io/yaml"
)

// Files serves files by their paths, and tells of each the ETag that belongs to its content.
type Files struct {
	*Server

	contents sync.Map // by the path of the request
}

// StartFiles starts a server of files, which has none yet, for a test, with which it is closed.
func StartFiles(t testing.TB, opts Options) *Files {
	t.Helper()
	f := &Files{}
	var err error
	f.Server, err = start(opts, http.HandlerFunc(f.serve))
	closeAfter(t, f.Server, err)
	return f
}

func (f *Files) serve(w http.ResponseWriter, r *http.Request) {
	found, _ := f.contents.Load(r.URL.Path)
	content, ok := found.([]byte)
	if !ok {
		http.NotFound(w, r)
		return
	}
	w.Header().Set("ETag", fmt.Sprintf("%q", digestOf(content)))
	http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(content)) // conditional requests as well
}

// Put has the server serve a file at a path below its URL, such as "charts/plain-1.0.0.tgz", and returns its URL. It
// replaces what was there.
func (f *Files) Put(path string, content []byte) (url string) {
	f.contents.Store(f.opts.Path+"/"+path, content)
	return f.URL() + "/" + path
}

// Repository is a chart repository: an index and the archives that it names.
type Repository struct {
	*Files

	entries map[string][]*Entry
}

// Entry is what the index says of one version of a chart.
type Entry struct {
	Name    string `json:"name"`
	Version string `json:"version"`
	// Digest is the SHA-256 of the archive in hexadecimal.
	Digest string `json:"digest,omitempty"`
	// URLs are where the archive is, relative to the repository or absolute.
	URLs []string `json:"urls"`
}

// StartRepository starts a chart repository without charts for a test, with which it is closed.
func StartRepository(t testing.TB, opts Options) *Repository {
	t.Helper()
	return &Repository{Files: StartFiles(t, opts), entries: map[string][]*Entry{}}
}

// Add stores a chart as charts/NAME-VERSION.tgz and puts it in the index, after what the changes have made of its
// entry. By default the entry has its digest and a relative URL. An entry of the same name and version is replaced. One
// goroutine at a time may call it.
func (r *Repository) Add(archive []byte, changes ...func(*Entry)) error {
	chart, err := loader.LoadArchive(bytes.NewReader(archive))
	if err != nil {
		return fmt.Errorf("read chart: %w", err)
	}
	name, version := chart.Name(), chart.Metadata.Version
	file := "charts/" + name + "-" + version + ".tgz"
	r.Put(file, archive)
	entry := &Entry{Name: name, Version: version, Digest: digestOf(archive)[len("sha256:"):], URLs: []string{file}}
	for _, change := range changes {
		change(entry)
	}
	others := slices.DeleteFunc(r.entries[name], func(e *Entry) bool { return e.Version == version })
	r.entries[name] = append(others, entry)
	index, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": r.entries})
	if err != nil {
		return fmt.Errorf("write index: %w", err)
	}
	r.Put("index.yaml", index)
	return nil
}

// At has the entry say that the archive is at these URLs.
func At(urls ...string) func(*Entry) { return func(e *Entry) { e.URLs = urls } }
