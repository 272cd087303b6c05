package component_test

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	sha256, sha512 := digest.SHA256.FromString("content"), digest.SHA512.FromString("content")
	const (
		generic, artifact = "genericBlobDigest/v1", "ociArtifactDigest/v1"
		blob, set, image  = component.KindBlob, component.KindArtifactSet, component.KindArtifact
	)
	type expected = component.Expected
	for name, c := range map[string]struct {
		algorithm, normalisation string
		value                    digest.Digest
		kind                     component.Kind
		want                     expected
		says                     string
	}{
		"blob":                   {"SHA-256", generic, sha256, blob, expected{Blob: sha256}, ""},
		"SHA-512":                {"SHA-512", generic, sha512, blob, expected{Blob: sha512}, ""},
		"legacy sha256":          {"sha256", generic, sha256, blob, expected{Blob: sha256}, ""},
		"legacy sha512":          {"sha512", generic, sha512, blob, expected{Blob: sha512}, ""},
		"artifact":               {"SHA-256", artifact, sha256, image, expected{Manifest: sha256}, ""},
		"legacy artifact":        {"SHA-256", "ociArtefactDigest/v1", sha256, image, expected{Manifest: sha256}, ""},
		"artifact, as of a blob": {"SHA-256", generic, sha256, image, expected{Blob: sha256}, ""},
		"artifact set":           {"SHA-256", artifact, sha256, set, expected{Manifest: sha256}, ""},
		"artifact set as a blob": {"SHA-256", generic, sha256, set, expected{Blob: sha256}, ""},
		"excluded":               {"NO-DIGEST", "EXCLUDE-FROM-SIGNATURE", "a:NO-DIGEST", blob, expected{}, ""},
		"of a component":         {"SHA-256", "jsonNormalisation/v2", sha256, blob, expected{}, ""},
		"unknown algorithm":      {"SHA3", generic, sha256, blob, expected{}, ""},
		"artifact, but a blob": {
			"SHA-256", artifact, sha256, blob, expected{},
			"one of an OCI artifact (ociArtifactDigest/v1), but its content is a blob",
		},
		"wrong length": {"SHA-256", generic, sha512, blob, expected{}, `which is none of "SHA-256"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := &component.Digest{
				HashAlgorithm: c.algorithm, NormalisationAlgorithm: c.normalisation, Value: c.value.Encoded(),
			}
			found, err := d.Expected(c.kind)
			check(t, c.want, found, err, c.says)
		})
	}
	found, err := (*component.Digest)(nil).Expected(component.KindBlob)
	check(t, expected{}, found, err, "")
}

func TestVerify(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	for _, want := range []digest.Digest{"", digest.SHA256.FromBytes(content), digest.SHA512.FromBytes(content)} {
		must(t, component.Verify("the blob", want, content))
	}
	refused(t, component.Verify("the blob", digest.FromString("other"), content),
		"the blob has the digest sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73, "+
			"but expected sha256:d9298a10")
}
