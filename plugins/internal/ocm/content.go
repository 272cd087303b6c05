package ocm

import (
	"bytes"
	"context"
	"io"
	"net/url"
	"os"
	"slices"
	"strings"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

// Want describes the wanted content. A Reader is asked for one Layer and Check only, with any Limit and Digest.
type Want struct {
	// Layer chooses the layer of an artifact with the content, such as (*Manifest).ChartLayer.
	Layer func(*component.Manifest) (ocispec.Descriptor, error)
	// Limit bounds the content, in bytes. Check verifies it.
	Limit int64
	Check fetch.Check
	// Digest has the expected digests of the content; the zero value for any.
	Digest component.Expected
}

// Content gets the content of a resource, to be released. A HelmChart is refused: its content is in a chart repository.
// The error is one of package fetch or net/http, or the cause of ctx.
func (r *Reader) Content(
	ctx context.Context, access component.Access, credentials *sdk.Credentials, want Want,
) (*fetch.File, error) {
	switch a := access.(type) {
	case component.Artifact:
		return r.Artifact(ctx, a.Reference, credentials.Registries, want)
	case component.Blob:
		return r.blob(ctx, a, credentials.Registries, want)
	case component.Wget:
		return r.address(ctx, a, credentials.ChartRepositories, want)
	default:
		return nil, fetch.Errorf(fetch.Invalid,
			"the access leads to a chart repository, but expected other content than a chart")
	}
}

// Artifact gets the layer of an artifact, to be released, as Content does. The reference has a tag or a digest.
func (r *Reader) Artifact(
	ctx context.Context, ref registry.Reference, credentials []sdk.RegistryCredentials, want Want,
) (*fetch.File, error) {
	ref.Registry = fetch.NormalizeHost(ref.Registry)
	switch pinned, given := want.Digest.Manifest, digest.Digest(ref.Reference); {
	case !isSHA256(pinned): // no registry knows it by another digest
	case given.Validate() == nil && given != pinned:
		return nil, fetch.Errorf(fetch.DigestMismatch, "the access has the digest %s, but the digest of the resource is %s; "+
			"correct the component descriptor", given, pinned)
	default:
		ref.Reference = pinned.String() // also if the tag was moved
	}
	fixed := ref.ValidateReferenceAsDigest() == nil
	key := fetch.KeyOf("artifact", ref.Reference, want.Digest, want.Limit)
	return r.fetcher.FromRegistry(ctx, ref, credentials, key,
		func(ctx context.Context, p *fetch.Pull, known fetch.Memo) (fetch.Memo, *fetch.File, error) {
			found, document, err := p.Manifest(ctx, ref.Reference, known.Manifest)
			memo := fetch.Memo{Fixed: fixed, Manifest: found}
			if err != nil || document == nil {
				return memo, nil, err
			}
			if err := component.Verify("the artifact", want.Digest.Manifest, document); err != nil {
				return memo, nil, err
			}
			layer, err := r.layerOf(ctx, p, document, want.Layer)
			if err != nil {
				return memo, nil, err
			}
			file, err := p.Blob(ctx, []ocispec.Descriptor{layer}, want.Limit, want.Check)
			if err != nil || component.Verify("", want.Digest.Blob, document) == nil {
				return memo, file, err // some writers give the digest of the manifest
			}
			file, err = Verified(file, want.Digest.Blob)
			return memo, file, err
		})
}

const (
	// maxManifests bounds the manifests of an index read to find the one with the layer.
	maxManifests = 16
	// maxAround bounds the overhead of an artifact set.
	maxAround = 1 << 20
	// helmConfig is the type of chart artifacts.
	helmConfig = "application/vnd.cncf.helm.config.v1+json"
)

// layerOf returns the layer of a manifest. In an index, exactly one manifest must have it: the others are an image or
// a signature, for example.
func (r *Reader) layerOf(
	ctx context.Context, p *fetch.Pull, document []byte, choose func(*component.Manifest) (ocispec.Descriptor, error),
) (layer ocispec.Descriptor, err error) {
	manifest, err := r.parseManifest(ctx, document)
	switch {
	case err != nil:
		return layer, err
	case !manifest.IsIndex():
		return choose(manifest)
	}
	candidates := manifest.Manifests
	isOther := func(d ocispec.Descriptor) bool { return d.ArtifactType != helmConfig }
	if charts := slices.DeleteFunc(slices.Clone(candidates), isOther); len(charts) > 0 {
		candidates = charts // older tools do not give a manifest's type
	}
	if len(candidates) > maxManifests {
		return layer, fetch.Errorf(fetch.Invalid, "the artifact is an index of %d manifests, but expected one manifest, or "+
			"at most %d with one of a chart or a blueprint", len(candidates), maxManifests)
	}
	matching := 0
	for _, candidate := range candidates {
		if candidate.Digest.Validate() != nil {
			return layer, fetch.Errorf(fetch.Invalid,
				"the artifact is an index with an invalid digest of a manifest")
		}
		_, document, err := p.Manifest(ctx, candidate.Digest.String(), "")
		if err != nil {
			return layer, err
		}
		if manifest, err = r.parseManifest(ctx, document); err != nil {
			return layer, err
		}
		if found, err := choose(manifest); err == nil {
			layer = found
			matching++
		}
	}
	if matching != 1 {
		return layer, fetch.Errorf(fetch.Invalid,
			"the artifact is an index with %d manifests of a chart or a blueprint, but expected one", matching)
	}
	return layer, nil
}

// isSHA256 reports whether a digest is one of SHA-256, by which registries know content; false for an empty one.
func isSHA256(d digest.Digest) bool { return strings.HasPrefix(d.String(), string(digest.SHA256)+":") }

// blob gets the content of a blob, or for an artifact set the layer in it.
func (r *Reader) blob(
	ctx context.Context, a component.Blob, credentials []sdk.RegistryCredentials, want Want,
) (*fetch.File, error) {
	a.Repository.Registry = fetch.NormalizeHost(a.Repository.Registry)
	var blobs []ocispec.Descriptor
	for _, chunk := range a.Chunks {
		blobs = append(blobs, ocispec.Descriptor{Digest: chunk, Size: -1})
	}
	key := fetch.KeyOf("blob", a.Chunks, a.Kind, want.Digest, want.Limit)
	return r.fetcher.FromRegistry(ctx, a.Repository, credentials, key,
		func(ctx context.Context, p *fetch.Pull, _ fetch.Memo) (memo fetch.Memo, file *fetch.File, err error) {
			memo.Fixed = true
			if a.Kind == component.KindArtifactSet {
				file, err = p.Blob(ctx, blobs, want.Limit+maxAround)
			} else {
				file, err = p.Blob(ctx, blobs, want.Limit, want.Check)
			}
			if err == nil {
				file, err = Verified(file, want.Digest.Blob)
			}
			if err != nil || a.Kind != component.KindArtifactSet {
				return memo, file, err
			}
			defer file.Release()
			layer, err := alone(ctx, r, func() (*fetch.File, error) { return r.unpack(file, want) })
			return memo, layer, err
		})
}

// unpack gets the layer of an artifact set.
func (r *Reader) unpack(set *fetch.File, want Want) (*fetch.File, error) {
	from, err := os.Open(set.Path)
	if err != nil {
		return nil, fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err)
	}
	defer from.Close() //nolint:errcheck // it is only read
	explain := func(err error) error { return fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err) }
	found, err := component.ReadArtifactSet(fetch.Body{From: from, Explain: explain}, want.Limit, want.Layer)
	if err == nil {
		err = component.Verify("the artifact", want.Digest.Manifest, found.Manifest)
	}
	if err != nil {
		return nil, err
	}
	return r.fetcher.Store(bytes.NewReader(found.Content), want.Limit, want.Check)
}

// address gets the content of an address.
func (r *Reader) address(
	ctx context.Context, a component.Wget, credentials []sdk.ChartRepositoryCredentials, want Want,
) (*fetch.File, error) {
	u, err := url.Parse(a.URL)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Hostname() == "" || u.User != nil {
		return nil, fetch.Errorf(fetch.Invalid,
			"the access has an invalid url: expected http:// or https://, a host, and no user")
	}
	at := fetch.Address{
		URL: u, Own: fetch.CredentialsFor(credentials, u), All: credentials, Limit: want.Limit, Check: want.Check,
	}
	if isSHA256(want.Digest.Blob) {
		at.Digest = want.Digest.Blob.String()
	}
	file, err := r.fetcher.FromAddress(ctx, at)
	if err != nil {
		return nil, err
	}
	return Verified(file, want.Digest.Blob)
}

// Verified returns a file with the expected digest; empty for any. It releases a file with another one.
func Verified(file *fetch.File, want digest.Digest) (*fetch.File, error) {
	err := verifyFile(file, want)
	if err != nil {
		file.Release()
		return nil, err
	}
	return file, nil
}

// verifyFile compares a file with its expected digest; an empty one accepts any file.
func verifyFile(file *fetch.File, want digest.Digest) error {
	found := digest.Digest(file.Digest)
	if want == "" || found == want {
		return nil
	}
	if want.Algorithm() != found.Algorithm() {
		from, err := os.Open(file.Path)
		if err != nil {
			return fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err)
		}
		defer from.Close() //nolint:errcheck // it is only read
		verifier := want.Verifier()
		if _, err := io.Copy(verifier, from); err != nil {
			return fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err)
		}
		if verifier.Verified() {
			return nil
		}
	}
	return fetch.Errorf(fetch.DigestMismatch, "the content has the digest %s, but expected %s, the digest of the "+
		"resource; push it again, or correct the component descriptor", found, want)
}
