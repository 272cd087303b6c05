package ocm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strings"

	"oras.land/oras-go/v2/registry"

	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/sdk"
)

const (
	// maxConfig bounds the config of a component version; it names one blob.
	maxConfig = 64 << 10
	// maxDescriptor bounds a descriptor, with its packaging.
	maxDescriptor = 2 << 20
)

// Reader reads component versions from registries. Its methods can be called concurrently.
type Reader struct {
	fetcher *fetch.Fetcher
	// parsing has room for one document, because it takes many times its size in memory.
	parsing chan struct{}
}

// NewReader returns a Reader with a Fetcher for its requests.
func NewReader(fetcher *fetch.Fetcher) *Reader {
	return &Reader{fetcher: fetcher, parsing: make(chan struct{}, 1)}
}

// Version reads a component version from the first place with it. The error is of the kind fetch.NotFound if no place
// has it, any other of package fetch, or the cause of ctx.
func (r *Reader) Version(
	ctx context.Context, places component.Places, credentials []sdk.RegistryCredentials, name, version string,
) (*component.Version, error) {
	candidates, err := places.For(name, version)
	if err != nil {
		return nil, err
	}
	var asked []string
	for _, place := range candidates {
		home := place.Home(name)
		found, err := r.versionAt(ctx, place, home, credentials, name, version)
		switch {
		case errors.Is(err, errNoVersion):
			asked = append(asked, place.String())
		case err != nil && ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			known := fetch.Explain(err)
			return nil, &fetch.Error{
				Kind: known.Kind, Err: fmt.Errorf("read component %s %s from %s: %w", name, version, place, known.Err),
			}
		default:
			return &component.Version{Descriptor: found, Home: home}, nil
		}
	}
	if places.Missing() != "" {
		return nil, fetch.Errorf(fetch.Unavailable, "component %s %s is not in %s, and other places are not known: %s",
			name, version, strings.Join(asked, ", nor in "), places.Missing())
	}
	return nil, fetch.Errorf(fetch.NotFound, "component %s %s is not in %s; push it, or correct its name, its version, "+
		"or the places of components in the Context", name, version, strings.Join(asked, ", nor in "))
}

// errNoVersion is the error of a place without the component version.
var errNoVersion = errors.New("no such component version")

// versionAt reads a component version from a place.
func (r *Reader) versionAt(
	ctx context.Context, place component.Place, home registry.Reference, credentials []sdk.RegistryCredentials,
	name, version string,
) (*component.Descriptor, error) {
	if place.WantsPlainHTTP && !r.fetcher.PlainHTTP(home.Registry) {
		return nil, fetch.Errorf(fetch.Invalid, "the repository context has an address with http://, but the operator has "+
			"not allowed it for this registry; write https://, or have the operator set plainHTTP for %s", home.Registry)
	}
	file, err := r.fetcher.FromRegistry(ctx, home, credentials, fetch.KeyOf("component", version),
		func(ctx context.Context, p *fetch.Pull, known fetch.Memo) (fetch.Memo, *fetch.File, error) {
			digest, document, err := p.Manifest(ctx, component.TagOf(version), known.Manifest)
			if found, ok := errors.AsType[*fetch.Error](err); ok && found.Kind == fetch.NotFound {
				err = errNoVersion
			}
			if err != nil || document == nil {
				return fetch.Memo{Manifest: digest}, nil, err
			}
			descriptor, err := r.pull(ctx, p, document, name, version)
			if err != nil {
				return fetch.Memo{}, nil, err
			}
			file, err := r.fetcher.Store(bytes.NewReader(descriptor.V2), maxStored)
			return fetch.Memo{Manifest: digest}, file, err
		})
	if err != nil {
		return nil, err
	}
	defer file.Release()
	document, err := os.ReadFile(file.Path)
	if err != nil {
		return nil, fetch.Errorf(fetch.CacheFailed, "read the cache: %w", err)
	}
	return r.parse(ctx, document, name, version)
}

// maxStored bounds a descriptor as JSON; for some texts it takes more bytes than YAML.
const maxStored = 8 * maxDescriptor

// pull gets the descriptor for a manifest.
func (r *Reader) pull(
	ctx context.Context, p *fetch.Pull, document []byte, name, version string,
) (*component.Descriptor, error) {
	manifest, err := r.parseManifest(ctx, document)
	if err == nil && manifest.IsIndex() {
		manifest, err = r.mainOf(ctx, p, manifest)
	}
	if err != nil {
		return nil, err
	}
	config, err := manifest.ComponentConfig()
	if err != nil {
		return nil, err
	}
	content, err := p.Document(ctx, config, maxConfig)
	if err != nil {
		return nil, err
	}
	blob, err := component.DescriptorBlob(content)
	if err != nil {
		return nil, err
	}
	if content, err = p.Document(ctx, blob, maxDescriptor); err != nil {
		return nil, err
	}
	if content, err = component.DescriptorFrom(blob.MediaType, content); err != nil {
		return nil, err
	}
	return r.parse(ctx, content, name, version)
}

// mainOf gets the manifest of the component version in an index.
func (r *Reader) mainOf(ctx context.Context, p *fetch.Pull, index *component.Manifest) (*component.Manifest, error) {
	main, err := index.Main()
	if err != nil {
		return nil, err
	}
	_, document, err := p.Manifest(ctx, main.Digest.String(), "")
	if err != nil {
		return nil, err
	}
	return r.parseManifest(ctx, document)
}

// parse is component.Parse for one document at a time.
func (r *Reader) parse(ctx context.Context, document []byte, name, version string) (*component.Descriptor, error) {
	return alone(ctx, r, func() (*component.Descriptor, error) { return component.Parse(document, name, version) })
}

// parseManifest is component.ParseManifest for one document at a time.
func (r *Reader) parseManifest(ctx context.Context, document []byte) (*component.Manifest, error) {
	return alone(ctx, r, func() (*component.Manifest, error) { return component.ParseManifest(document) })
}

// alone calls a function while no other is called.
func alone[T any](ctx context.Context, r *Reader, do func() (T, error)) (found T, err error) {
	select {
	case r.parsing <- struct{}{}:
		defer func() { <-r.parsing }()
		return do()
	case <-ctx.Done():
		return found, context.Cause(ctx)
	}
}
