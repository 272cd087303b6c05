package chartsource

import (
	"context"
	"errors"
	"net/http"
	"net/url"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRegistries is that of the Context which has the credentials for registries.
const fieldOfRegistries = "registryPullSecrets"

// fromRegistry gets the archive of a chart in an OCI registry.
func (f *Fetcher) fromRegistry(ctx context.Context, o registryOrigin, credentials *sdk.Credentials) (*file, error) {
	found := loginsFor(credentials.Registries, o.ref.Registry, o.ref.Repository)
	a := access{
		field: fieldOfRegistries, server: "registry " + o.ref.Registry,
		tried: len(found.usable) > 0, problems: found.problems,
	}
	logins := found.usable
	if !a.tried {
		logins = []auth.Credential{auth.EmptyCredential}
	}
	key := keyOf("registry", o.ref.String(), found.usable)
	archive, err := f.file(ctx, key, func(ctx context.Context, known memo) (memo, *file, error) {
		for _, login := range logins {
			p := f.newPull(o, login)
			found, archive, err := p.run(ctx, known)
			if err = p.explain(err); !errors.Is(err, errRefused) {
				return found, archive, err
			}
		}
		return memo{}, nil, a.refused()
	})
	if err != nil {
		return nil, about(o.String(), err)
	}
	return archive, nil
}

// pull is one try to get a chart from a registry, with one login.
type pull struct {
	fetcher    *Fetcher
	origin     registryOrigin
	login      auth.Credential
	repository *remote.Repository
}

func (f *Fetcher) newPull(o registryOrigin, login auth.Credential) *pull {
	host := o.ref.Host()
	return &pull{fetcher: f, origin: o, login: login, repository: &remote.Repository{
		Reference: o.ref,
		PlainHTTP: f.plainHTTP[o.ref.Registry],
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

// run looks the chart up, and downloads it if it is not the one that is known.
func (p *pull) run(ctx context.Context, known memo) (memo, *file, error) {
	desc, document, err := p.manifest(ctx, p.origin.ref.Reference, known.manifest)
	if err != nil {
		return memo{}, nil, err
	}
	found := memo{fixed: p.origin.ref.ValidateReferenceAsDigest() == nil, manifest: desc.Digest.String()}
	if document == nil {
		return found, nil, nil
	}
	layer, err := p.chartLayer(ctx, document)
	if err != nil {
		return memo{}, nil, err
	}
	archive, err := p.archive(ctx, layer)
	return found, archive, err
}

// manifest gets a manifest. The document is nil if it is the known one.
func (p *pull) manifest(ctx context.Context, reference, known string) (ocispec.Descriptor, []byte, error) {
	desc, answer, err := p.repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return desc, nil, err
	}
	defer answer.Close() //nolint:errcheck // it was read to its end, or is not wanted
	if desc.Digest.String() == known {
		return desc, nil, nil
	}
	if desc.Size > maxManifest {
		return desc, nil, tooLarge(maxManifest)
	}
	document, err := content.ReadAll(bodyOf(answer), desc)
	return desc, document, err
}

// archive downloads the layer that is the chart.
func (p *pull) archive(ctx context.Context, layer ocispec.Descriptor) (*file, error) {
	limit := p.fetcher.config.ArchiveBytes
	if layer.Size > limit {
		return nil, tooLarge(limit)
	}
	answer, err := p.repository.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer answer.Close() //nolint:errcheck // it was read to its end, or is not wanted
	verified := content.NewVerifyReader(answer, layer)
	verify := func(string, []byte) error { return p.explain(verified.Verify()) }
	return p.fetcher.cache.store(bodyOf(verified), limit, verify, isArchive)
}

// errRefused says that it was for the login that a pull has failed.
var errRefused = faultf(ReasonUnauthorized, "the registry refuses the login")

// explain returns an error of the pull for people, or errRefused. None of oras's texts is told: they may have the
// address of a redirect in them, which may hold a token, or texts of the server.
func (p *pull) explain(err error) error {
	var answer *errcode.ErrorResponse
	switch {
	case err == nil, errors.As(err, new(*fault)), errors.As(err, new(*url.Error)):
		return err
	case errors.Is(err, errdef.ErrNotFound), errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return faultf(ReasonNotFound, "the registry has no such chart; check the reference, or push the chart")
	// A token server refuses with 400, too, as OAuth2 has it.
	case answer != nil && (isRefusal(answer.StatusCode) ||
		answer.Method == http.MethodPost && answer.StatusCode == http.StatusBadRequest):
		return errRefused
	case answer != nil:
		return statusFault("registry", answer.StatusCode)
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData),
		errors.Is(err, content.ErrInvalidDescriptorSize):
		return faultf(ReasonDigestMismatch, "what the registry has sent does not have the digest and size that it should; "+
			"push the chart again")
	// oras has no type for a login without a password when the registry has asked for one.
	case errors.Is(err, auth.ErrBasicCredentialNotFound),
		p.login != auth.EmptyCredential && (p.login.Username == "" || p.login.Password == ""):
		return errRefused
	default:
		return faultf(ReasonUnavailable, "the registry does not answer as one does, or wants a token from a server that is "+
			"not asked: one without https, or at an internal address that is not the registry's")
	}
}

// statusFault is an answer with a status that nothing else is known about.
func statusFault(who string, status int) error {
	return faultf(ReasonUnavailable, "the %s has answered with status %d (%s)", who, status, http.StatusText(status))
}
