package chartserver

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/registry"
)

// The media types of a chart in a registry.
const (
	ManifestMediaType = "application/vnd.oci.image.manifest.v1+json"
	ConfigMediaType   = "application/vnd.cncf.helm.config.v1+json"
	ChartMediaType    = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
)

// Registry is an OCI registry: that of go-containerregistry, which keeps everything in memory, with authentication
// before it.
type Registry struct {
	*Server

	registry http.Handler // without authentication, and without a record of the requests
}

// NewRegistry starts an empty registry. The caller closes it.
func NewRegistry(opts Options) (*Registry, error) {
	handler := registry.New(registry.Logger(silent))
	server, err := start(opts, handler)
	return &Registry{Server: server, registry: handler}, err
}

// StartRegistry is NewRegistry for a test, which closes the registry.
func StartRegistry(t testing.TB, opts Options) *Registry {
	t.Helper()
	registry, err := NewRegistry(opts)
	closeAfter(t, registry, err)
	return registry
}

// Ref names a chart, or anything else, in the registry: by tag, or by digest.
func (r *Registry) Ref(repository, reference string) string {
	if strings.HasPrefix(reference, "sha256:") {
		return r.Host() + "/" + repository + "@" + reference
	}
	return r.Host() + "/" + repository + ":" + reference
}

// Push stores a chart as Helm does, and returns the digest of its manifest, such as "sha256:…". It may be anything,
// whether it is a chart or not. What the tag named before is still there by its digest.
func (r *Registry) Push(repository, tag string, archive []byte) (digest string, err error) {
	about := []byte("{}") // nobody reads what Helm writes there
	config, failed := r.PushBlob(repository, about)
	chart, failedAsWell := r.PushBlob(repository, archive)
	if err := errors.Join(failed, failedAsWell); err != nil {
		return "", err
	}
	const descriptor = `{"mediaType":%q,"digest":%q,"size":%d}`
	return r.PushManifest(repository, tag, ManifestMediaType, fmt.Appendf(nil,
		`{"schemaVersion":2,"config":`+descriptor+`,"layers":[`+descriptor+`]}`,
		ConfigMediaType, config, len(about), ChartMediaType, chart, len(archive)))
}

// PushManifest stores a manifest as it is, and returns its digest.
func (r *Registry) PushManifest(repository, tag, mediaType string, manifest []byte) (digest string, err error) {
	return r.push(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, manifest)
}

// PushBlob stores a blob, and returns its digest.
func (r *Registry) PushBlob(repository string, content []byte) (digest string, err error) {
	target := "/v2/" + repository + "/blobs/uploads/?digest=" + digestOf(content)
	return r.push(http.MethodPost, target, "application/octet-stream", content)
}

// push asks the registry without a connection.
func (r *Registry) push(method, target, contentType string, content []byte) (digest string, err error) {
	request := httptest.NewRequestWithContext(context.Background(), method, target, bytes.NewReader(content))
	request.Header.Set("Content-Type", contentType)
	answer := httptest.NewRecorder()
	r.registry.ServeHTTP(answer, request)
	if answer.Code != http.StatusCreated {
		return "", fmt.Errorf("%s %s: the registry answers %d: %s", method, target, answer.Code, answer.Body)
	}
	return digestOf(content), nil
}

func digestOf(content []byte) string { return fmt.Sprintf("sha256:%x", sha256.Sum256(content)) }
