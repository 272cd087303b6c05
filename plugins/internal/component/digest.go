package component

import (
	_ "crypto/sha512" // for digests of this kind
	"strings"

	"github.com/opencontainers/go-digest"

	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
)

// Digest is the digest of a resource or a reference in a descriptor.
type Digest struct {
	HashAlgorithm          string `json:"hashAlgorithm"`
	NormalisationAlgorithm string `json:"normalisationAlgorithm"`
	Value                  string `json:"value"`
}

// Kind is the form of a resource's content.
type Kind string

// The kinds of content.
const (
	// KindBlob is a blob of any content.
	KindBlob Kind = "a blob"
	// KindArtifactSet is a blob with an artifact set.
	KindArtifactSet Kind = "an artifact set"
	// KindArtifact is an artifact in a registry, identified by its manifest or index.
	KindArtifact Kind = "an OCI artifact"
)

// Expected are the expected digests of a resource's content; empty without a comparison.
type Expected struct {
	// Blob is the digest of the bytes; for an artifact that of its manifest or of its layer.
	Blob digest.Digest
	// Manifest is the digest of the manifest or index; for an artifact set of the main manifest in it.
	Manifest digest.Digest
}

var (
	hashAlgorithms = map[string]digest.Algorithm{
		"SHA-256": digest.SHA256, "sha256": digest.SHA256, "SHA-512": digest.SHA512, "sha512": digest.SHA512,
	}
	ofBlob     = "genericBlobDigest/v1"
	ofManifest = map[string]bool{"ociArtifactDigest/v1": true, "ociArtefactDigest/v1": true}
)

// Expected returns the expected digests of a resource's content, by its kind: none without a digest, for a resource
// excluded from signatures, and for unknown algorithms.
func (d *Digest) Expected(kind Kind) (Expected, error) {
	if d == nil {
		return Expected{}, nil
	}
	algorithm, known := hashAlgorithms[d.HashAlgorithm]
	artifact := ofManifest[d.NormalisationAlgorithm]
	if !known || !artifact && d.NormalisationAlgorithm != ofBlob {
		return Expected{}, nil
	}
	want := digest.NewDigestFromEncoded(algorithm, strings.ToLower(d.Value))
	switch {
	case want.Validate() != nil:
		return Expected{}, invalidf("the digest of the resource has the value %s, which is none of %s",
			shown(d.Value), shown(d.HashAlgorithm))
	case !artifact:
		return Expected{Blob: want}, nil
	case kind != KindBlob:
		return Expected{Manifest: want}, nil
	default:
		return Expected{}, invalidf("the digest of the resource is one of an OCI artifact (%s), but its content is %s",
			d.NormalisationAlgorithm, kind)
	}
}

// Verify compares content with its expected digest; an empty one accepts any content.
func Verify(what string, want digest.Digest, content []byte) error {
	if want == "" {
		return nil
	}
	if found := want.Algorithm().FromBytes(content); found != want {
		return fetch.Errorf(fetch.DigestMismatch,
			"%s has the digest %s, but expected %s; push it again, or correct the digest", what, found, want)
	}
	return nil
}
