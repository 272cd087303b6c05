package chartsource

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The defaults of Config.
const (
	DefaultMaxBytes     = 512 << 20
	DefaultMaxAge       = 24 * time.Hour
	DefaultArchiveBytes = 20 << 20
	DefaultIndexBytes   = 50 << 20
	DefaultFreshFor     = 10 * time.Second
	DefaultStallAfter   = time.Minute
)

const (
	// maxMemos bounds how many sources are remembered.
	maxMemos = 10_000
	// maxTime bounds a download, which those who wait for it may leave earlier.
	maxTime = 30 * time.Minute
)

// Config sets a Fetcher up.
type Config struct {
	// Dir is where the cache makes its own directory. It is created if it does not exist.
	Dir string
	// MaxBytes bounds the cache, MaxAge how long it keeps what nobody uses. They default to DefaultMaxBytes and
	// DefaultMaxAge.
	MaxBytes int64
	MaxAge   time.Duration
	// ArchiveBytes bounds an archive, IndexBytes the index of a repository. They default to DefaultArchiveBytes and
	// DefaultIndexBytes.
	ArchiveBytes, IndexBytes int64
	// FreshFor is how long what was looked up is good for. Defaults to DefaultFreshFor.
	FreshFor time.Duration
	// StallAfter is how long a server may send nothing. Defaults to DefaultStallAfter.
	StallAfter time.Duration
	// Registries say how servers are reached that need something said. All others are known by the authorities of the
	// system, and registries are reached by https. What is said counts for the server whatever it is asked for: a
	// registry's server of tokens may be listed, too, or that of a chart repository.
	Registries []Registry
	// UserAgent is told to servers. Defaults to "pergola-helm-deployer".
	UserAgent string
	// Resolvers are for the charts of the component model; nil for none.
	Resolvers map[chart.Field]chart.Resolver
	// Clock defaults to that of the system.
	Clock clock.PassiveClock
	// Transport is what connections are made with, for tests. Its DialContext is set. Defaults to that of net/http.
	Transport *http.Transport
}

// Registry says how a registry is reached.
type Registry struct {
	// Host is its name, with the port unless that is 443.
	Host string
	// PlainHTTP has it reached by http. Credentials for it go over the wire readable.
	PlainHTTP bool
	// InsecureSkipTLSVerify takes any certificate.
	InsecureSkipTLSVerify bool
	// CAData are the authorities in PEM that its certificate must be from; empty for those of the system.
	CAData []byte
}

// Fetcher gets archives. Its methods can be called concurrently.
type Fetcher struct {
	config    Config
	plainHTTP map[string]bool
	router    router
	cache     *cache

	// memos has a memo for each source and its credentials.
	memos *lru.Cache
	// parsing has room for one who parses an index, which is in memory then.
	parsing chan struct{}

	mu        sync.Mutex
	downloads map[string]*download // by source
}

// New makes the cache's directory and returns a Fetcher, to be closed.
func New(config Config) (*Fetcher, error) {
	config.MaxBytes = cmp.Or(config.MaxBytes, DefaultMaxBytes)
	config.MaxAge = cmp.Or(config.MaxAge, DefaultMaxAge)
	config.ArchiveBytes = cmp.Or(config.ArchiveBytes, DefaultArchiveBytes)
	config.IndexBytes = cmp.Or(config.IndexBytes, DefaultIndexBytes)
	config.FreshFor = cmp.Or(config.FreshFor, DefaultFreshFor)
	config.StallAfter = cmp.Or(config.StallAfter, DefaultStallAfter)
	config.UserAgent = cmp.Or(config.UserAgent, "pergola-helm-deployer")
	config.Clock = cmp.Or[clock.PassiveClock](config.Clock, clock.RealClock{})
	f := &Fetcher{
		config: config, plainHTTP: map[string]bool{}, downloads: map[string]*download{}, parsing: make(chan struct{}, 1),
		memos: lru.New(maxMemos),
	}
	usual, err := newTransport(config.Transport, config.StallAfter)
	if err != nil {
		return nil, err
	}
	f.router = router{usual: usual, special: map[string]*http.Transport{}}
	for _, r := range config.Registries {
		if err := f.addRegistry(r); err != nil {
			return nil, fmt.Errorf("registry %q: %w", r.Host, err)
		}
	}
	if f.cache, err = newCache(config); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *Fetcher) addRegistry(r Registry) error {
	host := normalizeHost(r.Host)
	if _, twice := f.plainHTTP[host]; twice || host == "" {
		return errors.New("expected a host, each once, but found it empty or twice")
	}
	f.plainHTTP[host] = r.PlainHTTP
	if len(r.CAData) == 0 && !r.InsecureSkipTLSVerify {
		return nil
	}
	t, err := withAuthorities(f.router.usual, r.CAData)
	if err != nil {
		return err
	}
	f.router.special[serverOf(&url.URL{Scheme: "https", Host: host})] = t
	return nil
}

// Close removes the cache, also archives in use.
func (f *Fetcher) Close() error {
	f.router.close()
	return f.cache.close()
}

// Request asks for one archive.
type Request struct {
	// Source that it comes from.
	Source Source
	// Credentials of the call; nil for none.
	Credentials *sdk.Credentials
	// DeployItem, Context and Log are what a resolver gets. They may be nil if the source needs none.
	DeployItem *v1alpha1.DeployItem
	Context    *v1alpha1.Context
	Log        *slog.Logger
}

// Archive is a packed chart on disk. It stays until it is released, and must not be changed.
type Archive struct {
	// Path of the file.
	Path string
	// Digest of its content, such as "sha256:…".
	Digest string

	release func()
}

// Release says that the archive is not used any more. Further calls do nothing.
func (a *Archive) Release() { a.release() }

// Fetch returns the archive of a chart, to be released. It blocks until that is there or ctx ends. The error is an
// *sdk.Error, which can be returned to the host, or the cause of ctx.
func (f *Fetcher) Fetch(ctx context.Context, req *Request) (*Archive, error) {
	credentials := req.Credentials
	if credentials == nil {
		credentials = &sdk.Credentials{}
	}
	source, found, err := req.Source, (*file)(nil), error(nil)
	if o, ok := source.origin.(resolverOrigin); ok {
		source, found, err = f.resolve(ctx, o, req)
	}
	if err == nil && found == nil {
		found, err = f.fetch(ctx, source, credentials)
	}
	switch cause := context.Cause(ctx); {
	case err != nil && cause != nil:
		return nil, cause // says more than what came of it
	case err != nil:
		return nil, about(source.String(), err)
	}
	release := sync.OnceFunc(func() { f.cache.release(found, 1) })
	return &Archive{Path: found.path, Digest: found.digest, release: release}, nil
}

// fetch gets the archive of a source that needs no resolver.
func (f *Fetcher) fetch(ctx context.Context, source Source, credentials *sdk.Credentials) (*file, error) {
	switch o := source.origin.(type) {
	case rawOrigin:
		return f.cache.store(bytes.NewReader(o.content), f.config.ArchiveBytes, isArchive)
	case remoteOrigin:
		all := credentials.ChartRepositories
		return f.fileAt(ctx, place{what: o.String(), url: o.url, own: credentialsFor(all, o.url), all: all})
	case registryOrigin:
		return f.fromRegistry(ctx, o, credentials)
	case repositoryOrigin:
		return f.fromRepository(ctx, o, credentials)
	default:
		return nil, faultf(ReasonSourceInvalid, "nothing says where the chart comes from")
	}
}

// memo is what is known of a source for somebody with certain credentials.
type memo struct {
	// digest of the file.
	digest string
	// fixed says that the source does not change.
	fixed bool
	// looked is when it was looked up.
	looked time.Time
	// etag, modified and manifest are how it is seen whether it has changed.
	etag, modified, manifest string
}

// lookUp finds out what a source has. known is what it had the last time, the zero memo for nothing. Without a file it
// has that still.
type lookUp func(ctx context.Context, known memo) (memo, *file, error)

// download is a file that is looked up and fetched for all that want it at the same time.
type download struct {
	// waiting counts the callers that wait for it, and cancel ends it when there are none.
	waiting int
	cancel  context.CancelFunc
	// done is closed when found and err are set.
	done  chan struct{}
	found *file
	err   error
}

// file returns the file of a source, to be released. Callers that want the same at the same time share a download. It
// goes on when one of them leaves because ctx has ended, and ends with the last.
func (f *Fetcher) file(ctx context.Context, key string, find lookUp) (*file, error) {
	f.mu.Lock()
	d := f.downloads[key]
	if d == nil {
		d = f.begin(ctx, key, find)
	}
	d.waiting++
	f.mu.Unlock()
	select {
	case <-d.done:
		return d.found, d.err
	case <-ctx.Done():
		f.leave(key, d)
		return nil, context.Cause(ctx)
	}
}

// begin begins a download, whose goroutine ends with it.
func (f *Fetcher) begin(ctx context.Context, key string, find lookUp) *download {
	working, cancel := context.WithTimeout(context.WithoutCancel(ctx), maxTime)
	d := &download{cancel: cancel, done: make(chan struct{})}
	f.downloads[key] = d
	go func() {
		defer cancel()
		found, err := f.current(working, key, find)
		f.mu.Lock()
		defer f.mu.Unlock()
		f.forget(key, d)
		if err == nil {
			f.cache.share(found, d.waiting) // each caller that waits is a user of the file now
			f.cache.release(found, 1)
		}
		d.found, d.err = found, err
		close(d.done)
	}()
	return d
}

// leave says that a caller does not wait for a download any more.
func (f *Fetcher) leave(key string, d *download) {
	f.mu.Lock()
	defer f.mu.Unlock()
	select {
	case <-d.done:
		if d.found != nil {
			f.cache.release(d.found, 1)
		}
		return
	default:
	}
	if d.waiting--; d.waiting == 0 {
		d.cancel()
		f.forget(key, d) // who comes now begins anew
	}
}

func (f *Fetcher) forget(key string, d *download) {
	if f.downloads[key] == d {
		delete(f.downloads, key)
	}
}

// current returns the file of a source: the one that is here if it need not be looked up, or what is found. A panic is
// an error for those who wait, because it would end the process otherwise.
func (f *Fetcher) current(ctx context.Context, key string, find lookUp) (found *file, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = faultf(ReasonPanic, "panic: %v", p)
		}
	}()
	value, _ := f.memos.Get(key)
	known, _ := value.(memo)
	kept := f.cache.get(known.digest)
	if kept == nil {
		known = memo{}
	}
	now := f.config.Clock.Now()
	if kept != nil && (known.fixed || now.Sub(known.looked) < f.config.FreshFor) {
		return kept, nil
	}
	looked, found, err := find(ctx, known)
	switch {
	case err == nil && found == nil:
		found = kept
	case kept != nil:
		f.cache.release(kept, 1)
	}
	if err != nil {
		return nil, err
	}
	looked.digest, looked.looked = found.digest, now
	f.memos.Add(key, looked)
	return found, nil
}

// keyOf returns the key of a source for somebody with certain credentials, which are not kept themselves.
func keyOf(parts ...any) string {
	return fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q", parts)))
}
