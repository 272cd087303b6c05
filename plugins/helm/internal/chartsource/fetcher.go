package chartsource

import (
	"bytes"
	"cmp"
	"context"
	"log/slog"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/component"
	"github.com/pergola-deploy/pergola/plugins/internal/fetch"
	"github.com/pergola-deploy/pergola/plugins/internal/ocm"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The defaults of Config.
const (
	DefaultArchiveBytes = 20 << 20
	DefaultIndexBytes   = 50 << 20
)

// Config sets a Fetcher up.
type Config struct {
	fetch.Config

	// ArchiveBytes bounds an archive, IndexBytes the index of a repository. They default to DefaultArchiveBytes and
	// DefaultIndexBytes.
	ArchiveBytes, IndexBytes int64
	// Helm reads the indexes of repositories, within RenderTime and MemoryBytes of Limits.
	Helm   helm.Helm
	Limits helm.Limits
	// Resolvers are for charts of the component model beyond the Fetcher's own means; nil for none.
	Resolvers map[chart.Field]chart.Resolver
}

// Fetcher gets archives. Its methods can be called concurrently.
type Fetcher struct {
	config     Config
	files      *fetch.Fetcher
	components *ocm.Reader
}

// New makes the cache's directory and returns a Fetcher, to be closed.
func New(config Config) (*Fetcher, error) {
	config.ArchiveBytes = cmp.Or(config.ArchiveBytes, DefaultArchiveBytes)
	config.IndexBytes = cmp.Or(config.IndexBytes, DefaultIndexBytes)
	config.UserAgent = cmp.Or(config.UserAgent, "pergola-helm-deployer")
	files, err := fetch.New(config.Config)
	if err != nil {
		return nil, err
	}
	return &Fetcher{config: config, files: files, components: ocm.NewReader(files)}, nil
}

// Close removes the cache, also archives in use.
func (f *Fetcher) Close() error { return f.files.Close() }

// Request asks for one archive.
type Request struct {
	// Source of the archive.
	Source Source
	// Credentials of the call; nil for none.
	Credentials *sdk.Credentials
	// DeployItem and Log are for a resolver, Context and OCMConfig for the places of components. They may be nil if the
	// source needs none.
	DeployItem *v1alpha1.DeployItem
	Context    *v1alpha1.Context
	OCMConfig  *sdk.OCMConfig
	Log        *slog.Logger
	// Warning shows the user a problem without an effect on the chart; nil for none.
	Warning func(reason, text string)
}

// Archive is a packed chart on disk. It stays until its release, and must not be changed.
type Archive struct {
	// Path of the file.
	Path string
	// Digest of its content, such as "sha256:…".
	Digest string
	// Resource of a component version with this archive; nil for another kind of source.
	Resource *component.Key

	release func()
}

// Release ends the use of the archive. Further calls do nothing.
func (a *Archive) Release() { a.release() }

// Fetch returns the archive of a chart, to be released. It blocks until the archive is there or ctx ends. The error
// is an *sdk.Error for the host, or the cause of ctx.
func (f *Fetcher) Fetch(ctx context.Context, req *Request) (*Archive, error) {
	archive := &Archive{}
	found, err := f.find(ctx, req, archive)
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		return nil, cause // the reason for err
	case err != nil:
		return nil, about(req.Source.String(), err)
	}
	archive.Path, archive.Digest, archive.release = found.Path, found.Digest, sync.OnceFunc(found.Release)
	return archive, nil
}

// find gets the archive of any source, and notes its resource.
func (f *Fetcher) find(ctx context.Context, req *Request, archive *Archive) (*fetch.File, error) {
	credentials := cmp.Or(req.Credentials, &sdk.Credentials{})
	o, ok := req.Source.origin.(resolverOrigin)
	if !ok {
		return f.fetch(ctx, req.Source, credentials)
	}
	source, found, err := f.resolve(ctx, o, req)
	switch {
	case err != nil || found != nil:
		return found, err
	case source.origin != nil:
		found, err = f.fetch(ctx, source, credentials)
		return found, about(source.String(), err)
	}
	key, err := component.ParseKey(o.chart.ResourceRef)
	if err != nil {
		return nil, fail(ReasonSourceInvalid, o.String(), "%w", err)
	}
	archive.Resource = &key
	return f.fromComponent(ctx, key, req, credentials)
}

// fetch gets the archive of a source outside the component model.
func (f *Fetcher) fetch(ctx context.Context, source Source, credentials *sdk.Credentials) (*fetch.File, error) {
	switch o := source.origin.(type) {
	case rawOrigin:
		return f.files.Store(bytes.NewReader(o.content), f.config.ArchiveBytes, isArchive)
	case remoteOrigin:
		all := credentials.ChartRepositories
		return f.files.FromAddress(ctx, fetch.Address{
			URL: o.url, Own: fetch.CredentialsFor(all, o.url), All: all, Limit: f.config.ArchiveBytes, Check: isArchive,
		})
	case registryOrigin:
		return f.components.Artifact(ctx, o.ref, credentials.Registries, f.want())
	case repositoryOrigin:
		return f.fromRepository(ctx, o, credentials)
	default:
		return nil, fail(ReasonSourceInvalid, source.String(), "nothing says where the chart comes from")
	}
}

// want describes a chart in a registry or of a component.
func (f *Fetcher) want() ocm.Want {
	return ocm.Want{Layer: (*component.Manifest).ChartLayer, Limit: f.config.ArchiveBytes, Check: isArchive}
}
