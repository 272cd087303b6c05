package fetch

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRegistries is the field of a Context with the credentials for registries.
const fieldOfRegistries = "registryPullSecrets"

const (
	// maxManifest is the limit of registries.
	maxManifest = 4 << 20

	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// PullFunc looks up a source in a registry, as LookUp does. It returns errors of the Pull as they are, or wrapped.
type PullFunc func(ctx context.Context, p *Pull, known Memo) (Memo, *File, error)

// FromRegistry returns content of a repository, found by find, to be released, as File does. find is called with one
// login for the repository after the other, until the registry accepts one; without any it asks anonymously. key
// stands for the content within the repository, as in File. The error is that of find, or the cause of ctx.
func (f *Fetcher) FromRegistry(
	ctx context.Context, repository registry.Reference, credentials []sdk.RegistryCredentials, key string, find PullFunc,
) (*File, error) {
	repository.Reference = ""
	found := loginsFor(credentials, repository.Registry, repository.Repository)
	a := access{
		field: fieldOfRegistries, server: "registry " + repository.Registry,
		tried: len(found.usable) > 0, problems: found.problems,
	}
	logins := found.usable
	if !a.tried {
		logins = []auth.Credential{auth.EmptyCredential}
	}
	key = KeyOf("registry", repository.String(), key, found.usable)
	file, err := f.File(ctx, key, func(ctx context.Context, known Memo) (found Memo, file *File, err error) {
		for _, login := range logins {
			found, file, err = find(ctx, f.newPull(repository, login), known)
			if !errors.Is(err, errRefused) {
				break
			}
		}
		return found, file, err
	})
	if errors.Is(err, errRefused) {
		return nil, a.refused() // the text is for this caller: others may have other Secrets with the same logins
	}
	return file, err
}

// Pull gets content from one repository with one login. It is for one goroutine.
type Pull struct {
	fetcher    *Fetcher
	login      auth.Credential
	repository *remote.Repository
}

func (f *Fetcher) newPull(repository registry.Reference, login auth.Credential) *Pull {
	host := repository.Host()
	return &Pull{fetcher: f, login: login, repository: &remote.Repository{
		Reference: repository,
		PlainHTTP: f.plainHTTP[repository.Registry],
		Client: &auth.Client{
			Client:   f.router.client(),
			ClientID: f.config.UserAgent,
			Header:   http.Header{"User-Agent": {f.config.UserAgent}},
			// One for each pull: its content is worth as much as the login.
			Cache: auth.NewCache(),
			Credential: func(_ context.Context, asked string) (auth.Credential, error) {
				if asked != host {
					return auth.EmptyCredential, nil
				}
				return login, nil
			},
		},
		ManifestMediaTypes: []string{
			ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerManifestList,
		},
	}}
}

// Manifest gets a manifest or an index by its tag or digest. The document is nil for the known digest.
func (p *Pull) Manifest(ctx context.Context, reference, known string) (digest string, document []byte, err error) {
	desc, answer, err := p.repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return "", nil, p.explain(err)
	}
	defer answer.Close() //nolint:errcheck // it was read to its end, or is not wanted
	digest = desc.Digest.String()
	if digest == known {
		return digest, nil, nil
	}
	if desc.Size > maxManifest {
		return "", nil, tooLarge(maxManifest)
	}
	document, err = content.ReadAll(bodyOf(answer), desc)
	return digest, document, p.explain(err)
}

// Document gets a blob of at most limit bytes into memory. Its digest and size are verified.
func (p *Pull) Document(ctx context.Context, blob ocispec.Descriptor, limit int64) ([]byte, error) {
	from := &blobReader{ctx: ctx, pull: p, blobs: []ocispec.Descriptor{blob}, limit: limit, left: limit}
	defer from.close()
	return io.ReadAll(from)
}

// Blob gets the content of blobs, one after the other, into the cache, at most limit bytes of all together. Their
// digests are verified, and their sizes except for negative ones. The file is to be released.
func (p *Pull) Blob(ctx context.Context, blobs []ocispec.Descriptor, limit int64, checks ...Check) (*File, error) {
	from := &blobReader{ctx: ctx, pull: p, blobs: blobs, limit: limit, left: limit}
	defer from.close()
	return p.fetcher.cache.store(from, limit, checks...)
}

// blobReader reads blobs one after the other, and verifies each at its end. All its errors are *Error.
type blobReader struct {
	ctx   context.Context //nolint:containedctx // it reads for one call
	pull  *Pull
	blobs []ocispec.Descriptor
	// limit bounds the bytes of all, and left is the rest of it.
	limit, left int64

	// body of the current blob, nil for none, and the rest of its size, if known.
	body     io.ReadCloser
	rest     int64
	verifier digest.Verifier
}

// Read implements io.Reader.
func (r *blobReader) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil {
		if r.body == nil {
			if len(r.blobs) == 0 {
				return 0, io.EOF
			}
			if err := r.open(r.blobs[0]); err != nil {
				return 0, err
			}
		}
		n, err = bodyOf(r.body).Read(b)
		_, _ = r.verifier.Write(b[:n]) // a hash takes anything
		r.rest, r.left = r.rest-int64(n), r.left-int64(n)
		switch {
		case r.rest < 0 && r.blobs[0].Size >= 0:
			return 0, errMismatch
		case r.left < 0:
			return 0, tooLarge(r.limit)
		}
		if errors.Is(err, io.EOF) {
			err = nil
			if !r.verifier.Verified() {
				err = errMismatch
			}
			r.close()
			r.blobs = r.blobs[1:]
		}
	}
	return n, err
}

// open begins to read a blob.
func (r *blobReader) open(blob ocispec.Descriptor) error {
	if blob.Size > r.left {
		return tooLarge(r.limit)
	}
	ref := r.pull.repository.Reference
	scheme := "https"
	if r.pull.repository.PlainHTTP {
		scheme = "http"
	}
	address := fmt.Sprintf("%s://%s/v2/%s/blobs/%s", scheme, ref.Host(), ref.Repository, blob.Digest)
	ctx := auth.AppendRepositoryScope(r.ctx, ref, auth.ActionPull)
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return Errorf(Invalid, "invalid digest %q", blob.Digest)
	}
	answer, err := r.pull.repository.Client.Do(req)
	if err != nil {
		return r.pull.explain(err)
	}
	size := answer.ContentLength
	switch {
	case answer.StatusCode == http.StatusNotFound:
		err = Errorf(NotFound, "the registry lacks a part of the artifact; push it again")
	case answer.StatusCode != http.StatusOK:
		err = r.pull.explain(&errcode.ErrorResponse{Method: req.Method, URL: req.URL, StatusCode: answer.StatusCode})
	case size > r.left:
		err = tooLarge(r.limit)
	case size >= 0 && blob.Size >= 0 && size != blob.Size:
		err = errMismatch
	default:
		r.body, r.rest, r.verifier = answer.Body, blob.Size, blob.Digest.Verifier()
		return nil
	}
	_ = answer.Body.Close() // it is not wanted
	return err
}

// close ends the current blob, if any.
func (r *blobReader) close() {
	if r.body != nil {
		_ = r.body.Close() // it was read to its end, or is not wanted
	}
	r.body = nil
}

// errMismatch is about content with another digest or size than expected.
var errMismatch = Errorf(DigestMismatch, "the registry sent content with another digest or size; push it again")

// errRefused is the error of a pull with a refused login.
var errRefused = Errorf(Unauthorized, "the registry refuses the login")

// explain returns an *Error for an error of the pull, or errRefused; nil for nil. It keeps none of oras's texts: they
// may quote the server, or the address of a redirect with a token in it.
func (p *Pull) explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*Error)), errors.As(err, new(*url.Error)):
		return Explain(err)
	// Any other 404 is one of a server of tokens.
	case errors.Is(err, errdef.ErrNotFound):
		return Errorf(NotFound, "the registry has no such artifact; check the reference, or push it")
	// A token server refuses with 400, too, as OAuth2 has it.
	case errors.As(err, &answer) && (isRefusal(answer.StatusCode) ||
		answer.Method == http.MethodPost && answer.StatusCode == http.StatusBadRequest):
		return errRefused
	case answer != nil:
		return statusError("registry", answer.StatusCode)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		errors.Is(err, content.ErrInvalidDescriptorSize):
		return errMismatch
	// oras has no type for a login without a password when the registry has asked for one.
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		p.login != auth.EmptyCredential && (p.login.Username == "" || p.login.Password == ""):
		return errRefused
	default:
		return Errorf(Unavailable, "unexpected response of the registry; or its token server was refused, without https "+
			"or at an internal address other than the registry's")
	}
}
