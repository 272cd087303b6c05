package chartserver

import (
	"bytes"
	"context"
	"crypto/rand"
	"io"
	"net/http"
	"sync"

	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// blobs keeps the blobs of a registry, and has clients sent elsewhere for them if it is told to.
type blobs struct {
	mu        sync.Mutex
	contents  map[v1.Hash][]byte
	elsewhere *Files
}

var (
	_ registry.BlobHandler     = (*blobs)(nil)
	_ registry.BlobStatHandler = (*blobs)(nil)
	_ registry.BlobPutHandler  = (*blobs)(nil)
)

func newBlobs() *blobs { return &blobs{contents: map[v1.Hash][]byte{}} }

func (b *blobs) redirectTo(files *Files) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.elsewhere = files
	if files != nil {
		for h, content := range b.contents {
			files.Put(blobPath(h), content)
		}
	}
}

// Get implements registry.BlobHandler.
func (b *blobs) Get(_ context.Context, _ string, h v1.Hash) (io.ReadCloser, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.contents[h]
	switch {
	case !ok:
		return nil, registry.ErrNotFound
	case b.elsewhere != nil:
		return nil, registry.RedirectError{
			Location: b.elsewhere.URL() + "/" + blobPath(h) + "?signature=" + rand.Text(), Code: http.StatusTemporaryRedirect,
		}
	default:
		return reader{bytes.NewReader(content)}, nil
	}
}

// reader can be read at any place, which the registry asks for to answer ranges.
type reader struct{ *bytes.Reader }

func (reader) Close() error { return nil }

// Stat implements registry.BlobStatHandler.
func (b *blobs) Stat(_ context.Context, _ string, h v1.Hash) (int64, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	content, ok := b.contents[h]
	if !ok {
		return 0, registry.ErrNotFound
	}
	return int64(len(content)), nil
}

// Put implements registry.BlobPutHandler.
func (b *blobs) Put(_ context.Context, _ string, h v1.Hash, r io.ReadCloser) error {
	content, err := io.ReadAll(r)
	if err != nil {
		return err
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.contents[h] = content
	if b.elsewhere != nil {
		b.elsewhere.Put(blobPath(h), content)
	}
	return nil
}

func blobPath(h v1.Hash) string { return "blobs/" + h.Algorithm + "/" + h.Hex }
