package components

import (
	"archive/tar"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"maps"
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/pergola-deploy/pergola/test/chartserver"
)

// Media types of blueprints.
const (
	BlueprintTar     = "application/vnd.gardener.landscaper.blueprint.v1+tar"
	BlueprintTarGzip = "application/vnd.gardener.landscaper.blueprint.v1+tar+gzip"
)

// Resource is a resource of a component version. Only Name has to be set, and Content or Access.
type Resource struct {
	// Name of the resource.
	Name string
	// Version of the resource. Defaults to that of the component.
	Version string
	// Type of the resource. Defaults to helmChart.
	Type string
	// ExtraIdentity is what distinguishes it from others of its name.
	ExtraIdentity map[string]string
	// Content is stored beside the descriptor. With an Access it is only what the digest is of.
	Content []byte
	// MediaType of the content. Defaults to that of a chart.
	MediaType string
	// Stored says in which form the content is stored.
	Stored Form
	// Access of content that is elsewhere, such as OCIArtifact.
	Access map[string]any
	// Digest says what the descriptor has as the digest of the content.
	Digest Digest
}

// Form is the form in which content is stored beside a descriptor.
type Form string

// The forms of content.
const (
	// AsBlob: as it is.
	AsBlob Form = ""
	// AsChunks: as two blobs.
	AsChunks Form = "chunks"
	// AsDots: as an artifact in a compressed tar, in the layout and with the annotation of the old library.
	AsDots Form = "artifact set, dots"
	// AsSlashes: as an artifact in a compressed tar, in the layout of OCI and without an annotation.
	AsSlashes Form = "artifact set, slashes"
	// AsManifest: as an artifact whose manifest is in an index with that of the component, as the new library does.
	AsManifest Form = "manifest"
)

// Digest says what a descriptor has as the digest of a resource. Other texts than the constants are the digest of a
// manifest, such as "sha256:…", for an Access of one.
type Digest string

// The digests of resources.
const (
	// RightDigest is that of the content; none if there is only an Access.
	RightDigest Digest = ""
	// NoDigest leaves it out.
	NoDigest Digest = "none"
	// WrongDigest is that of other content.
	WrongDigest Digest = "wrong"
	// ExcludedDigest says that the content is not to be checked.
	ExcludedDigest Digest = "excluded"
)

const (
	digestOfBlob     = "genericBlobDigest/v1"
	digestOfArtifact = "ociArtifactDigest/v1"
)

// OCIArtifact is the access of an artifact in a registry, such as Registry.Ref names it.
func OCIArtifact(ref string) map[string]any {
	return map[string]any{"type": "ociArtifact", "imageReference": ref}
}

// element is a resource in a descriptor.
func (r Resource) element(version string) map[string]any {
	s := r.store()
	relation := "local"
	if r.Access != nil {
		relation = "external"
	}
	found := map[string]any{
		"name": r.Name, "version": cmp.Or(r.Version, version), "type": cmp.Or(r.Type, "helmChart"), "relation": relation,
		"access": s.access,
	}
	if r.ExtraIdentity != nil {
		found["extraIdentity"] = r.ExtraIdentity
	}
	if s.digest != nil {
		found["digest"] = s.digest
	}
	return found
}

// stored is a resource in a registry.
type stored struct {
	access, digest map[string]any
	// layers are those of the component's manifest, and manifests those beside it, with their blobs.
	layers, manifests, blobs []blob
}

// store says what is in a registry for a resource.
func (r Resource) store() (s stored) {
	content := blobOf(cmp.Or(r.MediaType, chartserver.ChartMediaType), r.Content)
	if r.Access != nil {
		s.access = r.Access
		if r.Content != nil || r.Digest != RightDigest {
			s.digest = r.Digest.of(digestOfBlob, content.Digest)
		}
		return s
	}
	access := func(reference, mediaType string) map[string]any {
		return map[string]any{"type": "localBlob", "localReference": reference, "mediaType": mediaType}
	}
	manifest, blobs := artifactOf(content)
	switch r.Stored {
	case AsChunks:
		half := len(r.Content) / 2
		s.layers = []blob{blobOf(content.MediaType, r.Content[:half]), blobOf(content.MediaType, r.Content[half:])}
		s.access = access(s.layers[0].Digest.String()+","+s.layers[1].Digest.String(), content.MediaType)
		s.digest = r.Digest.of(digestOfBlob, content.Digest)
	case AsDots, AsSlashes:
		set := artifactSet(r.Stored, manifest, blobs)
		s.layers = []blob{set}
		s.access = access(set.Digest.String(), set.MediaType)
		s.digest = r.Digest.of(digestOfArtifact, manifest.Digest)
	case AsManifest:
		s.manifests, s.blobs = []blob{manifest}, blobs
		s.access = access(manifest.Digest.String(), manifest.MediaType)
		s.digest = r.Digest.of(digestOfBlob, manifest.Digest) // which the new library calls it
	default:
		s.layers = []blob{content}
		s.access = access(content.Digest.String(), content.MediaType)
		s.digest = r.Digest.of(digestOfBlob, content.Digest)
	}
	return s
}

// of is the digest in a descriptor, nil for none.
func (d Digest) of(normalisation string, right digest.Digest) map[string]any {
	switch d {
	case RightDigest:
		return digestFields(normalisation, right)
	case NoDigest:
		return nil
	case WrongDigest:
		return digestFields(normalisation, digest.FromString("other content"))
	case ExcludedDigest:
		const none = "NO-DIGEST"
		return map[string]any{"hashAlgorithm": none, "normalisationAlgorithm": "EXCLUDE-FROM-SIGNATURE", "value": none}
	default:
		return digestFields(digestOfArtifact, digest.Digest(d))
	}
}

func digestFields(normalisation string, d digest.Digest) map[string]any {
	return map[string]any{"hashAlgorithm": "SHA-256", "normalisationAlgorithm": normalisation, "value": d.Encoded()}
}

// artifactSet is an artifact in a compressed tar.
func artifactSet(form Form, manifest blob, blobs []blob) blob {
	separator, annotations := "/", map[string]string(nil)
	if form == AsDots {
		separator, annotations = ".", map[string]string{"software.ocm/main": manifest.Digest.String()}
	}
	index := indexOf(annotations, manifest)
	files := map[string][]byte{"oci-layout": []byte(`{"imageLayoutVersion":"1.0.0"}`), "index.json": index.content}
	for _, b := range append(blobs, manifest) {
		files["blobs/sha256"+separator+b.Digest.Encoded()] = b.content
	}
	return blobOf("application/vnd.oci.image.manifest.v1+tar+gzip", Gzip(tarOf(files)))
}

// Blueprint is a tar with a blueprint and files, by their paths. A file blueprint.yaml takes the place of its own.
func Blueprint(files map[string]string) []byte {
	all := map[string][]byte{
		"blueprint.yaml": []byte("apiVersion: landscaper.gardener.cloud/v1alpha1\nkind: Blueprint\n"),
	}
	for name, content := range files {
		all[name] = []byte(content)
	}
	return tarOf(all)
}

// Gzip compresses content.
func Gzip(content []byte) []byte {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	_, _ = w.Write(content) // to memory, which does not fail
	must(w.Close())
	return b.Bytes()
}

// tarOf is a tar of files, sorted by their names.
func tarOf(files map[string][]byte) []byte {
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		must(w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644, Size: int64(len(files[name]))}))
		_, _ = w.Write(files[name]) // to memory, which does not fail
	}
	must(w.Close())
	return b.Bytes()
}

func toJSON(value any) []byte {
	document, err := json.Marshal(value)
	must(err)
	return document
}

// must panics with an error that only a mistake in this package, or in a call of it, can cause.
func must(err error) {
	if err != nil {
		panic(err) //nolint:forbidigo // a mistake in the test, which has nothing to go on with
	}
}
