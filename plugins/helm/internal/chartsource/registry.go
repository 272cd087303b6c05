package chartsource

import (
	"context"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"regexp"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"oras.land/oras-go/v2/content"
	"oras.land/oras-go/v2/errdef"
	"oras.land/oras-go/v2/registry/remote"
	"oras.land/oras-go/v2/registry/remote/auth"
	"oras.land/oras-go/v2/registry/remote/errcode"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
	"github.com/pergola-deploy/pergola/sdk"
)

// fieldOfRegistries is that of the Context which has the credentials for registries.
const fieldOfRegistries = "registryPullSecrets"

// fromRegistry gets the archive of a chart in an OCI registry.
func (f *Fetcher) fromRegistry(ctx context.Context, o registryOrigin, credentials *sdk.Credentials) (*cache.Entry, error) {
	logins := keyring.ForRegistry(credentials.Registries, o.ref.Registry, o.ref.Repository)
	key := f.keyOf(func(h hash.Hash) {
		for _, login := range logins.Usable {
			login.Hash(h)
		}
	}, "registry", o.ref.String())
	a := access{field: fieldOfRegistries, server: "registry " + o.ref.Registry, tried: len(logins.Usable) > 0, problems: logins.Problems}
	if !a.tried {
		logins.Usable = []keyring.Login{{}}
	}
	return f.file(ctx, key, func(ctx context.Context, known memo) (memo, *cache.Entry, error) {
		for _, login := range logins.Usable {
			p, err := f.newPull(o, login)
			if err != nil {
				return memo{}, nil, err
			}
			found, entry, err := p.run(ctx, known)
			switch {
			case err == nil:
				return found, entry, nil
			case !p.refused(err):
				return memo{}, nil, p.explain(err)
			}
		}
		return memo{}, nil, a.refused(o)
	})
}

// pull is one try to get a chart from a registry, with one login.
type pull struct {
	fetcher    *Fetcher
	origin     registryOrigin
	repository *remote.Repository
	last       *lastAnswer
}

func (f *Fetcher) newPull(o registryOrigin, login keyring.Login) (*pull, error) {
	host := o.ref.Host()
	client, err := f.http()
	if err != nil {
		return nil, err
	}
	last := &lastAnswer{next: client.Transport}
	client.Transport = last
	return &pull{fetcher: f, origin: o, last: last, repository: &remote.Repository{
		Reference: o.ref,
		PlainHTTP: f.registries[o.ref.Registry].PlainHTTP,
		Client: &auth.Client{
			Client:   client,
			ClientID: f.config.UserAgent,
			// One for each pull: what it keeps is worth as much as the login.
			Cache: auth.NewCache(),
			Credential: func(_ context.Context, asked string) (auth.Credential, error) {
				if asked != host {
					return auth.EmptyCredential, nil
				}
				return auth.Credential{
					Username: login.Username, Password: login.Password, RefreshToken: login.IdentityToken, AccessToken: login.RegistryToken,
				}, nil
			},
		},
		ManifestMediaTypes: []string{ocispec.MediaTypeImageManifest, ocispec.MediaTypeImageIndex, dockerManifest, dockerManifestList},
	}}, nil
}

// run looks the chart up, and downloads it if it is not the one that is known.
func (p *pull) run(ctx context.Context, known memo) (memo, *cache.Entry, error) {
	desc, document, err := p.manifest(ctx, p.origin.ref.Reference, known.manifest)
	if err != nil {
		return memo{}, nil, err
	}
	_, err = p.origin.ref.Digest()
	found := memo{fixed: err == nil, manifest: desc.Digest.String()}
	if document == nil {
		return found, nil, nil
	}
	layer, err := p.chartLayer(ctx, desc, document)
	if err != nil {
		return memo{}, nil, err
	}
	entry, err := p.archive(ctx, layer)
	return found, entry, err
}

// manifest gets a manifest. The document is nil if it is the known one.
func (p *pull) manifest(ctx context.Context, reference, known string) (ocispec.Descriptor, []byte, error) {
	desc, body, err := p.repository.Manifests().FetchReference(ctx, reference)
	if err != nil {
		return desc, nil, err
	}
	defer body.Close() //nolint:errcheck // it was read to its end, or is not wanted
	if desc.Digest.String() == known {
		return desc, nil, nil
	}
	if desc.Size > mostOfManifest {
		return desc, nil, &cache.TooLargeError{Limit: mostOfManifest}
	}
	document, err := content.ReadAll(body, desc)
	return desc, document, err
}

// archive downloads the layer that is the chart.
func (p *pull) archive(ctx context.Context, layer ocispec.Descriptor) (*cache.Entry, error) {
	limit := p.fetcher.config.ArchiveBytes
	if layer.Size > limit {
		return nil, &cache.TooLargeError{Limit: limit}
	}
	body, err := p.repository.Blobs().Fetch(ctx, layer)
	if err != nil {
		return nil, err
	}
	defer body.Close() //nolint:errcheck // it was read to its end, or is not wanted
	verified := content.NewVerifyReader(body, layer)
	return p.fetcher.store(p.origin, verified, layer.Size, limit, func(fmt.Stringer, string, []byte) error {
		return verified.Verify()
	}, isArchive)
}

// refused tells whether it was for the login that the pull has failed.
func (p *pull) refused(err error) bool {
	var answer *errcode.ErrorResponse
	switch {
	case errors.As(err, &answer):
		// A token server refuses with 400, too, as OAuth2 has it.
		return isRefusal(answer.StatusCode) || answer.Method == http.MethodPost && answer.StatusCode == http.StatusBadRequest
	case errors.Is(err, auth.ErrBasicCredentialNotFound):
		return true
	default:
		// The registry has asked for user and password, and the login has none, for which oras has no type.
		return p.last.wantsPassword
	}
}

// explain returns an error of the pull for people. Other than by its type none of oras is told: it may have the address of a redirect in it,
// which may hold a token, or texts of the server.
func (p *pull) explain(err error) error {
	o := p.origin
	var answer *errcode.ErrorResponse
	var unanswered *download.AddressError
	switch {
	case errors.Is(err, errdef.ErrNotFound), errors.As(err, &answer) && answer.StatusCode == http.StatusNotFound:
		return fail(ReasonNotFound, "fetch %s: the registry has no such chart; check the reference, or push the chart", o)
	case errors.As(err, &answer):
		return fail(ReasonUnavailable, "fetch %s: the registry has answered with status %d (%s)%s", o,
			answer.StatusCode, http.StatusText(answer.StatusCode), errorCodes(answer.Errors))
	case errors.Is(err, content.ErrMismatchedDigest), errors.Is(err, content.ErrTrailingData), errors.Is(err, content.ErrInvalidDescriptorSize):
		return fail(ReasonDigestMismatch, "fetch %s: what the registry has sent does not have the digest and size that it should; push the chart again", o)
	case errors.As(err, &unanswered), isOurs(err):
		return explain(o, err)
	default:
		return fail(ReasonUnavailable, "fetch %s: the registry does not answer as one does, or wants a token from a server that is not asked: "+
			"one without https, or at an internal address that is not the registry's", o)
	}
}

// isOurs tells whether an error is of this package or those below it, whose texts can be told.
func isOurs(err error) bool {
	return errors.As(err, new(*sdk.Error)) || errors.As(err, new(*cache.Error)) || errors.As(err, new(*cache.TooLargeError)) || download.Is(err)
}

var wordOfError = regexp.MustCompile(`^[A-Z][A-Z_]{1,40}$`)

// errorCodes returns the words that a registry gives for what is wrong. Its texts are not repeated.
func errorCodes(errs errcode.Errors) string {
	var words []string
	for _, e := range errs {
		if wordOfError.MatchString(e.Code) && !slices.Contains(words, e.Code) && len(words) < 3 {
			words = append(words, e.Code)
		}
	}
	if len(words) == 0 {
		return ""
	}
	return ", " + strings.Join(words, ", ")
}

// lastAnswer notes what a server has answered with last.
type lastAnswer struct {
	next          http.RoundTripper
	wantsPassword bool
}

// RoundTrip is not called concurrently: a pull sends one request after the other.
func (l *lastAnswer) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := l.next.RoundTrip(req)
	l.wantsPassword = err == nil && resp.StatusCode == http.StatusUnauthorized &&
		strings.HasPrefix(strings.ToLower(resp.Header.Get("WWW-Authenticate")), "basic ")
	return resp, err
}
