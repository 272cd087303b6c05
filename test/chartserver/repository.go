package chartserver

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/yaml"
)

// indexFile is the name of the index of a chart repository.
const indexFile = "index.yaml"

// Repository is a chart repository: an index and the archives that it names.
type Repository struct {
	*Server

	base     string // the path of the repository, without a slash at its end
	contents *contents

	mu      sync.Mutex
	entries map[string][]*Entry
}

// Entry is what the index says of one version of a chart.
type Entry struct {
	APIVersion  string `json:"apiVersion,omitempty"`
	Name        string `json:"name,omitempty"`
	Version     string `json:"version,omitempty"`
	AppVersion  string `json:"appVersion,omitempty"`
	Description string `json:"description,omitempty"`
	// Digest is the SHA-256 of the archive in hexadecimal.
	Digest string `json:"digest,omitempty"`
	// URLs are where the archive is, relative to the repository or absolute.
	URLs []string `json:"urls"`
	// Created is when the archive was made.
	Created string `json:"created,omitempty"`
	// Deprecated is for charts that nobody shall use any more.
	Deprecated bool `json:"deprecated,omitempty"`
	// Removed is for versions that are not there any more.
	Removed bool `json:"removed,omitempty"`
}

// NewRepository starts an empty chart repository. The caller closes it.
func NewRepository(opts Options) (*Repository, error) {
	if opts.Auth == Bearer {
		return nil, errors.New("start chart repository: only registries have a token service")
	}
	r := &Repository{contents: &contents{files: map[string][]byte{}}, entries: map[string][]*Entry{}}
	if p := strings.Trim(opts.Path, "/"); p != "" {
		r.base = "/" + p
	}
	server, err := start(opts, r.kind, authorized(opts, r.contents))
	if err != nil {
		return nil, fmt.Errorf("start chart repository: %w", err)
	}
	r.Server = server
	if err := r.writeIndex(); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// URL is where the repository is, with its path.
func (r *Repository) URL() string { return r.Server.URL() + r.base }

// Add stores an archive as charts/NAME-VERSION.tgz and puts it in the index, after what the changes have made of its entry. By default the
// entry has its digest and a relative URL. An entry of the same name and version is replaced.
func (r *Repository) Add(archive []byte, changes ...func(*Entry)) error {
	about := aboutChart(archive, "unknown", "0.0.0")
	entry := &Entry{
		APIVersion:  about.text("apiVersion"),
		Name:        about.text("name"),
		Version:     about.text("version"),
		AppVersion:  about.text("appVersion"),
		Description: about.text("description"),
		Digest:      digestOf(archive),
		Created:     "2026-01-01T00:00:00Z",
	}
	file := "charts/" + entry.Name + "-" + entry.Version + ".tgz"
	r.Put(file, archive)
	entry.URLs = []string{file}
	for _, change := range changes {
		change(entry)
	}
	r.mu.Lock()
	versions := slices.DeleteFunc(r.entries[entry.Name], func(e *Entry) bool { return e.Version == entry.Version })
	r.entries[entry.Name] = append(versions, entry)
	r.mu.Unlock()
	return r.writeIndex()
}

// At has the entry say that the archive is at these URLs.
func At(urls ...string) func(*Entry) { return func(e *Entry) { e.URLs = urls } }

// Absolute has the entry say with an absolute URL where the archive is in the repository.
func (r *Repository) Absolute(e *Entry) { e.URLs = []string{r.URL() + "/" + e.URLs[0]} }

// WithoutDigest has the entry not say what the digest of the archive is.
func WithoutDigest(e *Entry) { e.Digest = "" }

// Put stores a file at a path relative to the repository, and returns its URL. It replaces what was there.
func (r *Repository) Put(path string, content []byte) (url string) {
	r.contents.put(r.base+"/"+path, content)
	return r.URL() + "/" + path
}

// Remove has the repository not have a file any more.
func (r *Repository) Remove(path string) { r.contents.remove(r.base + "/" + path) }

// SetIndex replaces the index by anything, until the next Add.
func (r *Repository) SetIndex(content []byte) { r.Put(indexFile, content) }

// writeIndex stores the index, as Helm writes it: the newest versions are not always the first.
func (r *Repository) writeIndex() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	content, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "entries": r.entries, "generated": "2026-01-01T00:00:00Z"})
	if err != nil {
		return fmt.Errorf("write index of the chart repository: %w", err)
	}
	r.SetIndex(content)
	return nil
}

func (r *Repository) kind(request *http.Request) Kind {
	if request.URL.Path == r.base+"/"+indexFile {
		return Index
	}
	return File
}
