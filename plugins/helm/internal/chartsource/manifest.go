package chartsource

import (
	"context"
	"encoding/json"
	"slices"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// The media types of Helm, which its library has in a package that brings the whole client along.
const (
	helmConfig      = "application/vnd.cncf.helm.config.v1+json"
	helmLayer       = "application/vnd.cncf.helm.chart.content.v1.tar+gzip"
	helmLayerLegacy = "application/tar+gzip"

	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

const (
	// mostOfManifest is what registries take.
	mostOfManifest = 4 << 20
	// mostManifests bounds how many manifests of an index are looked at for the one of a chart.
	mostManifests = 16
)

// document is a manifest, or an index of manifests.
type document struct {
	MediaType    string               `json:"mediaType"`
	ArtifactType string               `json:"artifactType"`
	Config       *ocispec.Descriptor  `json:"config"`
	Layers       []ocispec.Descriptor `json:"layers"`
	Manifests    []ocispec.Descriptor `json:"manifests"`
}

// chartLayer returns the layer of a manifest that is the chart. In an index it takes the only manifest that has one: a chart is for all
// platforms, and the others are of something else, such as an image or a signature.
func (p *pull) chartLayer(ctx context.Context, desc ocispec.Descriptor, content []byte) (ocispec.Descriptor, error) {
	d, err := p.decode(desc, content)
	if err != nil {
		return ocispec.Descriptor{}, err
	}
	if d.Manifests == nil {
		if !d.isChart() {
			return ocispec.Descriptor{}, p.noChart("what is there is %s", d.describe())
		}
		return p.layerOf(d)
	}
	candidates := slices.DeleteFunc(slices.Clone(d.Manifests), func(m ocispec.Descriptor) bool { return m.ArtifactType != helmConfig })
	if len(candidates) == 0 {
		candidates = d.Manifests // older tools do not note what a manifest is
	}
	if len(candidates) > mostManifests {
		return ocispec.Descriptor{}, p.noChart("what is there is an index of %d manifests, of which nothing says which one is the chart", len(candidates))
	}
	var charts []*document
	for _, candidate := range candidates {
		inner, err := p.inner(ctx, candidate)
		if err != nil {
			return ocispec.Descriptor{}, err
		}
		if inner.isChart() {
			charts = append(charts, inner)
		}
	}
	if len(charts) != 1 {
		return ocispec.Descriptor{}, p.noChart("what is there is an index of manifests, of which %d are charts", len(charts))
	}
	return p.layerOf(charts[0])
}

// inner gets a manifest of an index, by its digest.
func (p *pull) inner(ctx context.Context, desc ocispec.Descriptor) (*document, error) {
	if err := desc.Digest.Validate(); err != nil {
		return nil, p.noChart("what is there is an index with a manifest whose digest cannot be right")
	}
	_, content, err := p.manifest(ctx, desc.Digest.String(), "")
	if err != nil {
		return nil, err
	}
	d, err := p.decode(desc, content)
	if err == nil && d.Manifests != nil {
		return &document{}, nil // an index in an index is no chart
	}
	return d, err
}

// decode reads a manifest. One that is an index as well could be taken for the one thing by some and for the other by others.
func (p *pull) decode(desc ocispec.Descriptor, content []byte) (*document, error) {
	d := &document{}
	if err := json.Unmarshal(content, d); err != nil || d.Manifests != nil && (d.Layers != nil || d.Config != nil) {
		return nil, p.noChart("what is there, %s, cannot be read as a manifest", desc.Digest)
	}
	return d, nil
}

func (d *document) isChart() bool { return d.Config != nil && d.Config.MediaType == helmConfig }

// describe says what a manifest that is no chart is for. What servers send is repeated only if it is known.
func (d *document) describe() string {
	switch {
	case d.Config == nil:
		return "not a manifest with a config"
	case d.Config.MediaType == ocispec.MediaTypeImageConfig, d.Config.MediaType == "application/vnd.docker.container.image.v1+json":
		return "a container image"
	default:
		return "something of another kind"
	}
}

// layerOf returns the one layer of a chart's manifest that is its archive. Another may be its provenance.
func (p *pull) layerOf(d *document) (ocispec.Descriptor, error) {
	for _, mediaType := range []string{helmLayer, helmLayerLegacy} {
		layers := slices.DeleteFunc(slices.Clone(d.Layers), func(l ocispec.Descriptor) bool { return l.MediaType != mediaType })
		if len(layers) == 0 {
			continue
		}
		if len(layers) > 1 {
			return ocispec.Descriptor{}, p.noChart("its manifest has %d layers with an archive", len(layers))
		}
		if layers[0].Digest.Validate() != nil || layers[0].Size < 0 {
			return ocispec.Descriptor{}, p.noChart("its manifest has a layer whose digest or size cannot be right")
		}
		return layers[0], nil
	}
	return ocispec.Descriptor{}, p.noChart("its manifest has no layer with an archive")
}

// noChart is the error for what is no chart.
func (p *pull) noChart(format string, args ...any) error {
	return fail(ReasonArchiveInvalid, "fetch %s: expected a chart, as \"helm push\" makes it, but "+format+"; check the reference",
		append([]any{p.origin}, args...)...)
}
