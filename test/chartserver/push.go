package chartserver

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/types"
)

// The media types that Helm gives to what belongs to a chart.
const (
	ConfigMediaType     = "application/vnd.cncf.helm.config.v1+json"
	ChartMediaType      = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	ProvenanceMediaType = "application/vnd.cncf.helm.chart.provenance.v1.prov"
	// LegacyChartMediaType is what Helm 3.0 to 3.6 gave to a chart.
	LegacyChartMediaType = "application/tar+gzip"
)

// PushOptions say how a chart is stored. The zero value is as Helm does it.
type PushOptions struct {
	// Provenance is stored beside the chart; nil for none.
	Provenance []byte
	// ConfigType and ChartType are media types other than Helm's.
	ConfigType, ChartType string
	// Annotations of the manifest besides those of Helm.
	Annotations map[string]string
}

// Push stores a chart as Helm does, and returns the digest of its manifest, such as "sha256:…". It may be anything, whether it is a chart or
// not. What the tag named before is still there by its digest. The registry does not count it among its requests.
func (r *Registry) Push(repository, tag string, archive []byte) (digest string, err error) {
	return r.PushWith(repository, tag, archive, PushOptions{})
}

// PushWith is Push with options.
func (r *Registry) PushWith(repository, tag string, archive []byte, opts PushOptions) (digest string, err error) {
	about := aboutChart(archive, repository, tag)
	config, err := json.Marshal(about)
	if err != nil {
		return "", fmt.Errorf("write what the chart says of itself: %w", err)
	}
	annotations := map[string]string{
		"org.opencontainers.image.title":   about.text("name"),
		"org.opencontainers.image.version": about.text("version"),
	}
	for name, value := range opts.Annotations {
		annotations[name] = value
	}
	manifest := &v1.Manifest{SchemaVersion: 2, MediaType: types.OCIManifestSchema1, Annotations: annotations}
	if manifest.Config, err = r.pushBlob(repository, cmp.Or(opts.ConfigType, ConfigMediaType), config); err != nil {
		return "", err
	}
	chart, err := r.pushBlob(repository, cmp.Or(opts.ChartType, ChartMediaType), archive)
	if err != nil {
		return "", err
	}
	manifest.Layers = []v1.Descriptor{chart}
	if opts.Provenance != nil {
		provenance, err := r.pushBlob(repository, ProvenanceMediaType, opts.Provenance)
		if err != nil {
			return "", err
		}
		manifest.Layers = append(manifest.Layers, provenance)
	}
	content, err := json.Marshal(manifest)
	if err != nil {
		return "", fmt.Errorf("write manifest: %w", err)
	}
	return r.PushManifest(repository, tag, string(types.OCIManifestSchema1), content)
}

// PushIndex stores an index of manifests that are there already, by their digests, and returns its digest.
func (r *Registry) PushIndex(repository, tag string, digests ...string) (digest string, err error) {
	index := &v1.IndexManifest{SchemaVersion: 2, MediaType: types.OCIImageIndex}
	for _, d := range digests {
		hash, err := v1.NewHash(d)
		if err != nil {
			return "", fmt.Errorf("read digest: %w", err)
		}
		content, err := r.do(http.MethodGet, "/v2/"+repository+"/manifests/"+d, "", nil, http.StatusOK)
		if err != nil {
			return "", err
		}
		index.Manifests = append(index.Manifests, v1.Descriptor{MediaType: types.OCIManifestSchema1, Digest: hash, Size: int64(len(content))})
	}
	content, err := json.Marshal(index)
	if err != nil {
		return "", fmt.Errorf("write index: %w", err)
	}
	return r.PushManifest(repository, tag, string(types.OCIImageIndex), content)
}

// PushManifest stores a manifest as it is, and returns its digest.
func (r *Registry) PushManifest(repository, tag, mediaType string, manifest []byte) (digest string, err error) {
	if _, err := r.do(http.MethodPut, "/v2/"+repository+"/manifests/"+tag, mediaType, manifest, http.StatusCreated); err != nil {
		return "", err
	}
	return "sha256:" + digestOf(manifest), nil
}

// PushBlob stores a blob, and returns its digest.
func (r *Registry) PushBlob(repository string, content []byte) (digest string, err error) {
	blob, err := r.pushBlob(repository, "", content)
	return blob.Digest.String(), err
}

// Untag has a tag name nothing any more.
func (r *Registry) Untag(repository, tag string) error {
	_, err := r.do(http.MethodDelete, "/v2/"+repository+"/manifests/"+tag, "", nil, http.StatusAccepted)
	return err
}

func (r *Registry) pushBlob(repository, mediaType string, content []byte) (v1.Descriptor, error) {
	hash := v1.Hash{Algorithm: "sha256", Hex: digestOf(content)}
	target := "/v2/" + repository + "/blobs/uploads/?digest=" + url.QueryEscape(hash.String())
	if _, err := r.do(http.MethodPost, target, "application/octet-stream", content, http.StatusCreated); err != nil {
		return v1.Descriptor{}, err
	}
	return v1.Descriptor{MediaType: types.MediaType(mediaType), Digest: hash, Size: int64(len(content))}, nil
}

// do asks the registry without a connection, and so without authentication, books and faults.
func (r *Registry) do(method, target, contentType string, body []byte, want int) ([]byte, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, target, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s %s: %w", method, target, err)
	}
	if contentType != "" {
		request.Header.Set("Content-Type", contentType)
	}
	answer := replay(r.registry, request)
	if answer.status != want {
		return nil, fmt.Errorf("%s %s: the registry answers %d: %s", method, target, answer.status, answer.body.String())
	}
	return answer.body.Bytes(), nil
}
