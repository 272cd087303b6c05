package component_test

import (
	"testing"

	"github.com/opencontainers/go-digest"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
)

func TestExpected(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	sha256, sha512 := digest.SHA256.FromBytes(content), digest.SHA512.FromBytes(content)
	const generic, artifact = "genericBlobDigest/v1", "ociArtifactDigest/v1"
	of := func(algorithm, normalisation string, d digest.Digest) *component.Digest {
		return &component.Digest{HashAlgorithm: algorithm, NormalisationAlgorithm: normalisation, Value: d.Encoded()}
	}
	for name, c := range map[string]struct {
		digest *component.Digest
		kind   component.Kind
		want   component.Expected
	}{
		"blob":                   {of("SHA-256", generic, sha256), component.KindBlob, component.Expected{Blob: sha256}},
		"SHA-512":                {of("SHA-512", generic, sha512), component.KindBlob, component.Expected{Blob: sha512}},
		"legacy sha256":          {of("sha256", generic, sha256), component.KindBlob, component.Expected{Blob: sha256}},
		"legacy sha512":          {of("sha512", generic, sha512), component.KindBlob, component.Expected{Blob: sha512}},
		"artifact":               {of("SHA-256", artifact, sha256), component.KindArtifact, component.Expected{Manifest: sha256}},
		"legacy artifact":        {of("SHA-256", "ociArtefactDigest/v1", sha256), component.KindArtifact, component.Expected{Manifest: sha256}},
		"artifact, as of a blob": {of("SHA-256", generic, sha256), component.KindArtifact, component.Expected{Blob: sha256}},
		"artifact set":           {of("SHA-256", artifact, sha256), component.KindArtifactSet, component.Expected{Manifest: sha256}},
		"artifact set as a blob": {of("SHA-256", generic, sha256), component.KindArtifactSet, component.Expected{Blob: sha256}},
		"none":                   {nil, component.KindBlob, component.Expected{}},
		"excluded":               {&component.Digest{HashAlgorithm: "NO-DIGEST", NormalisationAlgorithm: "EXCLUDE-FROM-SIGNATURE", Value: "NO-DIGEST"}, component.KindBlob, component.Expected{}},
		"of a component":         {of("SHA-256", "jsonNormalisation/v2", sha256), component.KindBlob, component.Expected{}},
		"unknown algorithm":      {of("SHA3", generic, sha256), component.KindBlob, component.Expected{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if found, err := c.digest.Expected(c.kind); err != nil || found != c.want {
				t.Errorf("expected %v, but found %v and error %v", c.want, found, err)
			}
		})
	}
	_, err := of("SHA-256", artifact, sha256).Expected(component.KindBlob)
	refused(t, err, "one of an OCI artifact (ociArtifactDigest/v1), but its content is a blob")
	_, err = of("SHA-256", generic, sha512).Expected(component.KindBlob)
	refused(t, err, `which is none of "SHA-256"`)
}

func TestVerify(t *testing.T) {
	t.Parallel()
	content := []byte("content")
	for _, want := range []digest.Digest{"", digest.SHA256.FromBytes(content), digest.SHA512.FromBytes(content)} {
		if err := component.Verify("the blob", want, content); err != nil {
			t.Errorf("%s: %v", want, err)
		}
	}
	refused(t, component.Verify("the blob", digest.FromString("other"), content), "the blob has the digest sha256:ed7002b439e9ac845f22357d822bac1444730fbdb6016d3ec9432297b9ec9f73, but expected sha256:d9298a10")
}
