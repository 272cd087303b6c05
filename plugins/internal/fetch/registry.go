package fetch

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/url"

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
	// maxManifest is what registries take.
	maxManifest = 4 << 20

	dockerManifest     = "application/vnd.docker.distribution.manifest.v2+json"
	dockerManifestList = "application/vnd.docker.distribution.manifest.list.v2+json"
)

// PullFunc finds out what a source in a registry has, as LookUp does. Errors of the Pull are returned as they are, or
// wrapped.
type PullFunc func(ctx context.Context, p *Pull, known Memo) (Memo, *File, error)

// FromRegistry returns content that find gets from a repository, to be released, as File does. find is called with one
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
	return f.File(ctx, key, func(ctx context.Context, known Memo) (Memo, *File, error) {
		for _, login := range logins {
			found, file, err := find(ctx, f.newPull(repository, login), known)
			if !errors.Is(err, errRefused) {
				return found, file, err
			}
		}
		return Memo{}, nil, a.refused()
	})
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
			// One for each pull: what it keeps is worth as much as the login.
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

// Manifest gets a manifest or an index by its tag or digest. The document is nil if it has the known digest.
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
	answer, blob, err := p.open(ctx, blob, limit)
	if err != nil {
		return nil, err
	}
	defer answer.Close() //nolint:errcheck // it was read to its end, or is not wanted
	document, err := content.ReadAll(bodyOf(answer), blob)
	return document, p.explain(err)
}

// open begins to read a blob of at most limit bytes, and returns it with its size.
func (p *Pull) open(
	ctx context.Context, blob ocispec.Descriptor, limit int64,
) (io.ReadCloser, ocispec.Descriptor, error) {
	if blob.Size > limit {
		return nil, blob, tooLarge(limit)
	}
	var answer io.ReadCloser
	var err error
	if blob.Size >= 0 {
		answer, err = p.repository.Blobs().Fetch(ctx, blob)
	} else {
		reference := blob.Digest.String()
		blob, answer, err = p.repository.Blobs().FetchReference(ctx, reference)
	}
	switch {
	case err != nil:
		return nil, blob, p.explain(err)
	case blob.Size > limit:
		_ = answer.Close() // it is not wanted
		return nil, blob, tooLarge(limit)
	default:
		return answer, blob, nil
	}
}

// Blob gets the content of blobs, one after the other, into the cache, at most limit bytes of all together. Their
// digests are verified, and their sizes but for negative ones. The file is to be released.
func (p *Pull) Blob(ctx context.Context, blobs []ocispec.Descriptor, limit int64, checks ...Check) (*File, error) {
	from := &blobReader{ctx: ctx, pull: p, blobs: blobs, left: limit}
	defer from.close()
	return p.fetcher.cache.store(from, limit, checks...)
}

// blobReader reads blobs one after the other, and verifies each at its end.
type blobReader struct {
	ctx   context.Context //nolint:containedctx // it reads for one call
	pull  *Pull
	blobs []ocispec.Descriptor
	left  int64

	body    io.ReadCloser
	current *content.VerifyReader
}

// Read implements io.Reader.
func (r *blobReader) Read(b []byte) (n int, err error) {
	for n == 0 && err == nil {
		if r.current == nil {
			if len(r.blobs) == 0 {
				return 0, io.EOF
			}
			if err := r.open(); err != nil {
				return 0, err
			}
		}
		n, err = bodyOf(r.current).Read(b)
		if errors.Is(err, io.EOF) {
			err = r.pull.explain(r.current.Verify())
			r.close()
		}
	}
	return n, err
}

// open begins with the next blob.
func (r *blobReader) open() error {
	answer, blob, err := r.pull.open(r.ctx, r.blobs[0], r.left)
	if err != nil {
		return err
	}
	r.blobs, r.left = r.blobs[1:], r.left-blob.Size
	r.body, r.current = answer, content.NewVerifyReader(answer, blob)
	return nil
}

// close ends the blob that is being read; nothing if there is none.
func (r *blobReader) close() {
	if r.body != nil {
		_ = r.body.Close() // it was read to its end, or is not wanted
	}
	r.body, r.current = nil, nil
}

// errRefused says that a pull has failed because of its login.
var errRefused = Errorf(Unauthorized, "the registry refuses the login")

// explain returns an *Error for an error of the pull, or errRefused; nil for nil. None of oras's texts is told: they may
// have the address of a redirect in them, which may hold a token, or texts of the server.
func (p *Pull) explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case err == nil:
		return nil
	case errors.As(err, new(*Error)), errors.As(err, new(*url.Error)):
		return Explain(err)
	case errors.Is(err, errdef.ErrNotFound), errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return Errorf(NotFound, "the registry has no such artifact; check the reference, or push it")
	// A token server refuses with 400, too, as OAuth2 has it.
	case answer != nil && (isRefusal(answer.StatusCode) ||
		answer.Method == http.MethodPost && answer.StatusCode == http.StatusBadRequest):
		return errRefused
	case answer != nil:
		return statusError("registry", answer.StatusCode)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		errors.Is(err, content.ErrInvalidDescriptorSize):
		return Errorf(DigestMismatch, "the registry has sent content with another digest or size; "+
			"push it again")
	// oras has no type for a login without a password when the registry has asked for one.
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		p.login != auth.EmptyCredential && (p.login.Username == "" || p.login.Password == ""):
		return errRefused
	default:
		return Errorf(Unavailable, "the registry does not answer as one does, or has content of another size than the "+
			"manifest says, or wants a token from a server that is not asked: one without https, or at an internal address "+
			"that is not the registry's")
	}
}
