package chartserver

import (
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"path"
	"strings"

	"github.com/google/go-containerregistry/pkg/registry"
)

// Registry is an OCI registry: that of go-containerregistry, which keeps everything in memory, with authentication before it.
type Registry struct {
	*Server

	registry  http.Handler // without authentication, books and faults
	blobs     *blobs
	tokens    *tokenService
	elsewhere *Server
}

// NewRegistry starts an empty registry. The caller closes it.
func NewRegistry(opts Options) (*Registry, error) {
	b := newBlobs()
	r := &Registry{blobs: b, registry: registry.New(registry.WithBlobHandler(b), registry.Logger(log.New(io.Discard, "", 0)))}
	if opts.Auth != Bearer {
		server, err := start(opts, registryKind, authorized(opts, r.registry))
		if err != nil {
			return nil, fmt.Errorf("start registry: %w", err)
		}
		r.Server = server
		return r, nil
	}
	if err := r.startWithTokens(opts); err != nil {
		return nil, err
	}
	return r, nil
}

// startWithTokens starts the registry, and the token service with it or before it.
func (r *Registry) startWithTokens(opts Options) error {
	r.tokens = &tokenService{opts: opts, given: map[string][]string{}}
	handler := r.tokens.require(r.registry)
	if !opts.TokensElsewhere {
		mux := http.NewServeMux()
		mux.Handle(tokenPath, r.tokens)
		mux.Handle("/", handler)
		handler = mux
	}
	server, err := start(opts, registryKind, handler)
	if err != nil {
		return fmt.Errorf("start registry: %w", err)
	}
	r.Server = server
	tokens := server
	if opts.TokensElsewhere {
		opts.Authority = server.authority
		if r.elsewhere, err = start(opts, registryKind, r.tokens); err != nil {
			return errors.Join(fmt.Errorf("start token service: %w", err), server.Close())
		}
		tokens = r.elsewhere
	}
	r.tokens.set(tokens.URL()+tokenPath, server.Host())
	return nil
}

// Tokens is the server of the token service, which is that of the registry unless the tokens are elsewhere; nil if there is no such service.
func (r *Registry) Tokens() *Server {
	switch {
	case r.tokens == nil:
		return nil
	case r.elsewhere != nil:
		return r.elsewhere
	default:
		return r.Server
	}
}

// ExpireTokens makes all tokens invalid that were given.
func (r *Registry) ExpireTokens() {
	if r.tokens != nil {
		r.tokens.expire()
	}
}

// Ref names a chart, or anything else, in the registry: by tag, or by digest.
func (r *Registry) Ref(repository, reference string) string {
	if strings.HasPrefix(reference, "sha256:") {
		return r.Host() + "/" + repository + "@" + reference
	}
	return r.Host() + "/" + repository + ":" + reference
}

// RedirectBlobs has clients sent to files for blobs, as large registries do it, with a signed URL; nil has the registry answer them again.
// Blobs that are there already, or come later, are put there.
func (r *Registry) RedirectBlobs(files *Files) { r.blobs.redirectTo(files) }

// Close closes the token service as well.
func (r *Registry) Close() error {
	err := r.Server.Close()
	if r.elsewhere != nil {
		err = errors.Join(err, r.elsewhere.Close())
	}
	return err
}

func registryKind(r *http.Request) Kind {
	if r.URL.Path == tokenPath {
		return Token
	}
	if p := path.Clean(r.URL.Path); p == "/v2" {
		return Ping
	}
	elements := strings.Split(r.URL.Path, "/")
	if len(elements) < 4 {
		return Other
	}
	switch elements[len(elements)-2] {
	case "manifests":
		return Manifest
	case "blobs", "uploads":
		return Blob
	case "tags":
		return Tags
	default:
		return Other
	}
}
