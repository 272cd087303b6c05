package component

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// Manifest is a manifest or an index of an OCI registry or an artifact set.
type Manifest struct {
	// Config and Layers are the fields of a manifest, Manifests those of an index.
	Config    *ocispec.Descriptor  `json:"config"`
	Layers    []ocispec.Descriptor `json:"layers"`
	Manifests []ocispec.Descriptor `json:"manifests"`
	// Annotations of either.
	Annotations map[string]string `json:"annotations"`
}

// annotationMain marks the manifest of the component version in an index.
const annotationMain = "software.ocm.descriptor"

// Media types of the config of a component version, and of the blob with its descriptor, with and without a tar
// around it.
var (
	configTypes = []string{
		"application/vnd.ocm.software.component.config.v1+json",
		"application/vnd.gardener.cloud.cnudie.component.config.v1+json",
		"application/vnd.oci.gardener.cloud.cnudie.component-descriptor-metadata.config.v2+json",
	}
	tarTypes = []string{
		"application/vnd.ocm.software.component-descriptor.v2+yaml+tar",
		"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar",
		"application/vnd.oci.gardener.cloud.cnudie.component-descriptor.config.v2+yaml+tar",
	}
	plainTypes = []string{
		"application/vnd.ocm.software.component-descriptor.v2+json",
		"application/vnd.ocm.software.component-descriptor.v2+yaml",
		"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+json",
		"application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml",
	}
)

// ParseManifest reads a manifest or an index. It refuses an ambiguous document.
func ParseManifest(document []byte) (*Manifest, error) {
	m := &Manifest{}
	var count struct {
		Layers    length `json:"layers"`
		Manifests length `json:"manifests"`
	}
	if json.Unmarshal(document, &count) == nil && max(count.Layers, count.Manifests) > maxManifestElements {
		return nil, fetch.Errorf(fetch.TooLarge, "the manifest has more than %d layers or manifests", maxManifestElements)
	}
	if json.Unmarshal(document, m) != nil || m.Manifests != nil && (m.Layers != nil || m.Config != nil) {
		return nil, invalidf("expected a manifest of a registry, but found something else")
	}
	return m, nil
}

// IsIndex reports whether it is an index.
func (m *Manifest) IsIndex() bool { return m.Manifests != nil }

// Main returns the manifest of the component version in an index: the marked one, else the first.
func (m *Manifest) Main() (ocispec.Descriptor, error) {
	marked := slices.DeleteFunc(slices.Clone(m.Manifests), func(d ocispec.Descriptor) bool {
		return d.Annotations[annotationMain] != "true"
	})
	switch {
	case len(marked) > 1:
		return ocispec.Descriptor{}, invalidf("the tag leads to an index with %d manifests of components; push the "+
			"component version again", len(marked))
	case len(marked) == 1:
		return checkDescriptor("the manifest of the component in the index", marked[0])
	case len(m.Manifests) > 0:
		return checkDescriptor("the first manifest of the index", m.Manifests[0])
	default:
		return ocispec.Descriptor{}, invalidf("the tag leads to no component but to an index without manifests")
	}
}

// ComponentConfig returns the blob for DescriptorBlob.
func (m *Manifest) ComponentConfig() (ocispec.Descriptor, error) {
	switch {
	case m.IsIndex():
		return ocispec.Descriptor{}, invalidf("the tag leads to no component but to an index of indexes")
	case m.Config == nil || m.Config.MediaType == "":
		return ocispec.Descriptor{}, invalidf("the tag leads to no component but to a manifest without a config")
	case !slices.Contains(configTypes, m.Config.MediaType):
		return ocispec.Descriptor{}, invalidf("the tag leads to no component but to an artifact of the type %s",
			shown(m.Config.MediaType))
	default:
		return checkDescriptor("the config of the component's manifest", *m.Config)
	}
}

// DescriptorBlob reads the config of a component version and returns the blob of the descriptor.
func DescriptorBlob(config []byte) (ocispec.Descriptor, error) {
	var found struct {
		Layer ocispec.Descriptor `json:"componentDescriptorLayer"`
	}
	if json.Unmarshal(config, &found) != nil {
		return ocispec.Descriptor{}, invalidf("the config of the component's manifest cannot be read as JSON")
	}
	if !slices.Contains(tarTypes, found.Layer.MediaType) && !slices.Contains(plainTypes, found.Layer.MediaType) {
		return ocispec.Descriptor{}, invalidf("the config of the component's manifest names a component descriptor of the "+
			"type %s, which is not known", shown(found.Layer.MediaType))
	}
	return checkDescriptor("the component descriptor in the config", found.Layer)
}

// checkDescriptor refuses an invalid digest or size.
func checkDescriptor(what string, d ocispec.Descriptor) (ocispec.Descriptor, error) {
	if d.Digest.Validate() != nil || d.Size < 0 {
		return ocispec.Descriptor{}, invalidf("%s has an invalid digest or size", what)
	}
	return d, nil
}

// descriptorFile is the file of the descriptor in a tar.
const descriptorFile = "component-descriptor.yaml"

// DescriptorFrom returns the document for Parse out of the blob of DescriptorBlob.
func DescriptorFrom(mediaType string, blob []byte) ([]byte, error) {
	if !slices.Contains(tarTypes, mediaType) {
		return blob, nil
	}
	for entries := tar.NewReader(bytes.NewReader(blob)); ; {
		entry, err := entries.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil, invalidf("the tar of the component descriptor has no file %s", descriptorFile)
		case err != nil:
			return nil, invalidf("the tar of the component descriptor cannot be read: %w", err)
		case cleanName(entry.Name) != descriptorFile || entry.Typeflag != tar.TypeReg:
			continue
		case entry.Size > int64(len(blob)): // a sparse file
			return nil, invalidf("the tar of the component descriptor has a file %s that is larger than the tar", descriptorFile)
		}
		content, err := io.ReadAll(entries)
		if err != nil {
			return nil, invalidf("the tar of the component descriptor cannot be read: %w", err)
		}
		return content, nil
	}
}

// cleanName returns the name of an entry relative to the root of the archive.
func cleanName(name string) string { return strings.TrimPrefix(path.Clean(name), "/") }

// baseType returns a media type without its compression.
func baseType(mediaType string) string {
	base, _, _ := strings.Cut(mediaType, "+")
	return base
}

// Media types of layers, without their compression.
const (
	chartType       = "application/vnd.cncf.helm.chart.content.v1.tar"
	legacyChartType = "application/tar"
)

// imageConfigs are the media types of the configs of container images.
var imageConfigs = []string{ocispec.MediaTypeImageConfig, "application/vnd.docker.container.image.v1+json"}

// ChartLayer returns the layer of a manifest with a packed chart.
func (m *Manifest) ChartLayer() (ocispec.Descriptor, error) {
	var layers []ocispec.Descriptor
	for _, kind := range []string{chartType, legacyChartType} {
		if len(layers) == 0 {
			layers = slices.DeleteFunc(slices.Clone(m.Layers), func(l ocispec.Descriptor) bool {
				return baseType(l.MediaType) != kind
			})
		}
	}
	switch {
	case len(layers) == 1:
		return checkDescriptor("the layer with the chart", layers[0])
	case m.Config != nil && slices.Contains(imageConfigs, m.Config.MediaType):
		return ocispec.Descriptor{}, invalidf("the artifact is a container image, but expected a chart; check the reference")
	default:
		return ocispec.Descriptor{}, invalidf("the artifact has %d layers with a chart, but expected one of the type "+
			"%s+gzip, as \"helm push\" makes it; check the reference", len(layers), chartType)
	}
}

// blueprintConfig is the media type of a blueprint's config; blueprintTars are those of blueprints.
const blueprintConfig = "application/vnd.gardener.landscaper.blueprint.config.v1"

var blueprintTars = []string{
	"application/vnd.gardener.landscaper.blueprint.v1+tar", "application/vnd.gardener.landscaper.blueprint.v1+tar+gzip",
	"application/vnd.gardener.landscaper.blueprint.layer.v1.tar",
	"application/vnd.gardener.landscaper.blueprint.layer.v1.tar+gzip",
	"application/x-tar", "application/x-tgz", "application/x-tar+gzip",
}

// isBlueprint reports whether a blob of a media type can be a blueprint, a tar with or without compression.
func isBlueprint(mediaType string) bool { return slices.Contains(blueprintTars, mediaType) }

// BlueprintLayer returns the layer of a manifest with a blueprint.
func (m *Manifest) BlueprintLayer() (ocispec.Descriptor, error) {
	if len(m.Layers) == 0 {
		return ocispec.Descriptor{}, invalidf("the artifact has no layers, but a blueprint has one")
	}
	isConfig := m.Config != nil && (m.Config.MediaType == blueprintConfig || isBlueprint(m.Config.MediaType))
	if first := m.Layers[0]; isConfig || isBlueprint(first.MediaType) {
		return checkDescriptor("the layer with the blueprint", first)
	}
	return ocispec.Descriptor{}, invalidf("the artifact is no blueprint: its first layer has the type %s, but expected "+
		"one of %s", shown(m.Layers[0].MediaType), listed(blueprintTars))
}
