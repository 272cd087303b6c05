// Package components has component versions of the component model (OCM) for tests: it writes them into a registry by
// hand, in the forms that the libraries of the component model write and in forms that are wrong.
//
// It has its own names for all that is in a document, so that it cannot share a mistake with what reads them.
package components

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/test/chartserver"
)

// Media types of descriptors. One that ends with +tar is a tar with the document as YAML; others are the document
// itself, as JSON or YAML.
const (
	// DescriptorTar is what the old library writes, and DescriptorJSON what the new one does.
	DescriptorTar  = "application/vnd.ocm.software.component-descriptor.v2+yaml+tar"
	DescriptorJSON = "application/vnd.ocm.software.component-descriptor.v2+json"
	DescriptorYAML = "application/vnd.ocm.software.component-descriptor.v2+yaml"

	LegacyDescriptorTar  = "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+yaml+tar"
	LegacyDescriptorJSON = "application/vnd.gardener.cloud.cnudie.component-descriptor.v2+json"
)

// Media types of the config of a component version.
const (
	Config       = "application/vnd.ocm.software.component.config.v1+json"
	LegacyConfig = "application/vnd.gardener.cloud.cnudie.component.config.v1+json"
)

// The schemas of descriptors.
const (
	SchemaV2 = "v2"
	SchemaV3 = "ocm.software/v3alpha1"
)

// Version is a component version. Only Name and Version have to be set: without the others it has the form that the old
// library writes.
type Version struct {
	// Name and Version of the component.
	Name, Version string
	// Resources and References to other components.
	Resources  []Resource
	References []Reference
	// RepositoryContexts are where it says that it has been.
	RepositoryContexts []map[string]any

	// Schema of the descriptor. Defaults to SchemaV2; one that does not exist has the form of that.
	Schema string
	// DescriptorType is the media type of the descriptor and decides its form. Defaults to DescriptorTar.
	DescriptorType string
	// ConfigType is the media type of the config. Defaults to Config.
	ConfigType string
	// Marked marks the manifest of the component in the index that there is if a resource is stored AsManifest, and puts
	// it after the others. Without it that manifest is the first.
	Marked bool

	// InsideName and InsideVersion are what the descriptor says. Default to Name and Version.
	InsideName, InsideVersion string
	// Document takes the place of the descriptor's document.
	Document []byte
	// DescriptorFile is the file of the descriptor in its tar. Defaults to the right one.
	DescriptorFile string
	// Refer changes what the config says of the blob with the descriptor.
	Refer func(*ocispec.Descriptor)
}

// Reference is a reference to another component version.
type Reference struct {
	// Name of the reference.
	Name string
	// Component and Version of what it refers to.
	Component, Version string
	// Inline is put into the label from which Landscaper takes the descriptor of a component that is nowhere else.
	Inline *Version
}

// Place is where components are in a registry.
type Place struct {
	Registry *chartserver.Registry
	// Prefix is before all repositories, such as "a/b"; the subPath of a repository context. Empty for none.
	Prefix string
	// HashedNames has repositories named by the hash of the component's name.
	HashedNames bool
}

// Context is the repository context of the place.
func (p Place) Context() map[string]any {
	found := map[string]any{"type": "OCIRegistry", "baseUrl": p.Registry.Host()}
	if p.Prefix != "" {
		found["subPath"] = p.Prefix
	}
	if p.HashedNames {
		found["componentNameMapping"] = "sha256-digest"
	}
	return found
}

// Repository is where the versions of a component are in the registry.
func (p Place) Repository(component string) string {
	if p.HashedNames {
		return path.Join(p.Prefix, fmt.Sprintf("%x", sha256.Sum256([]byte(component))))
	}
	return path.Join(p.Prefix, "component-descriptors", component)
}

// Tag is the tag of a component version.
func Tag(version string) string { return strings.ReplaceAll(version, "+", ".build-") }

// Push stores a component version and returns the digest of what its tag names. What the tag named before is still
// there by its digest.
func (p Place) Push(t testing.TB, v Version) (digest string) {
	t.Helper()
	return v.write().push(t, p.Registry, p.Repository(v.Name), Tag(v.Version))
}

// PushArtifact stores content as an artifact with one layer, such as a blueprint for an OCIArtifact, and returns the
// digest of its manifest. Registry.Push does so with charts.
func PushArtifact(t testing.TB, to *chartserver.Registry, repository, tag, mediaType string, content []byte) string {
	t.Helper()
	manifest, blobs := artifactOf(blobOf(mediaType, content))
	return written{blobs: blobs, manifests: []blob{manifest}}.push(t, to, repository, tag)
}

// Key is the key of a resource for chart.resourceRef, as Landscaper's getResourceKey writes it. What is extra of its
// identity comes in pairs of name and value.
func Key(component, version, resource string, extra ...string) string {
	identity := map[string]string{"name": resource}
	for pair := range slices.Chunk(extra, 2) {
		identity[pair[0]] = pair[1]
	}
	document, err := yaml.Marshal(map[string]any{
		"component": map[string]string{"name": component, "version": version}, "resource": identity,
	})
	must(err)
	return base64.StdEncoding.EncodeToString(document)
}

// written are the parts of a component version.
type written struct {
	blobs []blob
	// manifests begin with that of the tag.
	manifests []blob
}

// push stores the parts and returns the digest of what the tag names.
func (w written) push(t testing.TB, to *chartserver.Registry, repository, tag string) (digest string) {
	t.Helper()
	for _, b := range w.blobs {
		if _, err := to.PushBlob(repository, b.content); err != nil {
			t.Fatal(err)
		}
	}
	for i, m := range slices.Backward(w.manifests) { // an index comes after what is in it
		reference := m.Digest.String()
		if i == 0 {
			reference = tag
		}
		var err error
		if digest, err = to.PushManifest(repository, reference, m.MediaType, m.content); err != nil {
			t.Fatal(err)
		}
	}
	return digest
}

// write makes the parts of a component version.
func (v Version) write() written {
	descriptor := v.descriptor()
	layer := descriptor.Descriptor
	if v.Refer != nil {
		v.Refer(&layer)
	}
	config := blobOf(cmp.Or(v.ConfigType, Config), toJSON(map[string]any{"componentDescriptorLayer": layer}))
	w := written{blobs: []blob{descriptor, config}}
	layers := []blob{descriptor}
	for _, r := range v.Resources {
		s := r.store()
		w.blobs = append(append(w.blobs, s.layers...), s.blobs...)
		layers = append(layers, s.layers...)
		w.manifests = append(w.manifests, s.manifests...)
	}
	component := manifestOf(config, layers...)
	switch {
	case len(w.manifests) == 0:
		w.manifests = []blob{component}
		return w
	case v.Marked:
		component.Annotations = map[string]string{"software.ocm.descriptor": "true"}
		w.manifests = append(w.manifests, component)
	default:
		w.manifests = slices.Insert(w.manifests, 0, component)
	}
	w.manifests = slices.Insert(w.manifests, 0, indexOf(nil, w.manifests...))
	return w
}

// descriptor makes the blob with the descriptor.
func (v Version) descriptor() blob {
	mediaType := cmp.Or(v.DescriptorType, DescriptorTar)
	document := v.Document
	if document == nil {
		document = toJSON(v.Descriptor())
		if !strings.HasSuffix(mediaType, "+json") {
			var err error
			document, err = yaml.JSONToYAML(document)
			must(err)
		}
	}
	if strings.HasSuffix(mediaType, "+tar") {
		document = tarOf(map[string][]byte{cmp.Or(v.DescriptorFile, "component-descriptor.yaml"): document})
	}
	return blobOf(mediaType, document)
}

// Descriptor is the descriptor in its schema, such as for an item that has it inline.
func (v Version) Descriptor() map[string]any {
	name, version := cmp.Or(v.InsideName, v.Name), cmp.Or(v.InsideVersion, v.Version)
	resources, references := []any{}, []any{}
	for _, r := range v.Resources {
		resources = append(resources, r.element(v.Version))
	}
	for _, r := range v.References {
		reference := map[string]any{"name": r.Name, "componentName": r.Component, "version": r.Version}
		if r.Inline != nil {
			const label = "landscaper.gardener.cloud/component-descriptor"
			reference["labels"] = []any{map[string]any{"name": label, "value": r.Inline.Descriptor()}}
		}
		references = append(references, reference)
	}
	contexts := append([]map[string]any{}, v.RepositoryContexts...)
	if v.Schema == SchemaV3 {
		return map[string]any{
			"apiVersion": SchemaV3, "kind": "ComponentVersion", "repositoryContexts": contexts,
			"metadata": map[string]any{"name": name, "version": version, "provider": map[string]any{"name": "example.com"}},
			"spec":     map[string]any{"resources": resources, "references": references},
		}
	}
	return map[string]any{
		"meta": map[string]any{"schemaVersion": cmp.Or(v.Schema, SchemaV2)},
		"component": map[string]any{
			"name": name, "version": version, "provider": "example.com", "repositoryContexts": contexts,
			"resources": resources, "sources": []any{}, "componentReferences": references,
		},
	}
}

// blob is content with what refers to it.
type blob struct {
	ocispec.Descriptor

	content []byte
}

func blobOf(mediaType string, content []byte) blob {
	return blob{Descriptor: ocispec.Descriptor{
		MediaType: mediaType, Digest: digest.FromBytes(content), Size: int64(len(content)),
	}, content: content}
}

// artifactOf is an artifact with one layer: its manifest, and the config and the layer.
func artifactOf(layer blob) (manifest blob, blobs []blob) {
	config := blobOf(ocispec.MediaTypeEmptyJSON, []byte("{}"))
	if layer.MediaType == chartserver.ChartMediaType {
		config.MediaType = chartserver.ConfigMediaType
	}
	return manifestOf(config, layer), []blob{config, layer}
}

// manifestOf is the manifest of an artifact.
func manifestOf(config blob, layers ...blob) blob {
	manifest := ocispec.Manifest{
		MediaType: ocispec.MediaTypeImageManifest, Config: config.Descriptor, Layers: descriptors(layers),
	}
	manifest.SchemaVersion = 2
	return blobOf(ocispec.MediaTypeImageManifest, toJSON(manifest))
}

// indexOf is the index of manifests.
func indexOf(annotations map[string]string, manifests ...blob) blob {
	index := ocispec.Index{
		MediaType: ocispec.MediaTypeImageIndex, Manifests: descriptors(manifests), Annotations: annotations,
	}
	index.SchemaVersion = 2
	return blobOf(ocispec.MediaTypeImageIndex, toJSON(index))
}

func descriptors(blobs []blob) []ocispec.Descriptor {
	found := make([]ocispec.Descriptor, len(blobs))
	for i, b := range blobs {
		found[i] = b.Descriptor
	}
	return found
}
