package chartsource

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"

	"github.com/pergola-deploy/pergola/plugins/helm/chart"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/cache"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/download"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/flight"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/index"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/keyring"
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
)

const (
	// mostMemos bounds how many sources are remembered, and mostParsed for how many charts the versions in an index are.
	mostMemos  = 10_000
	mostParsed = 64
	// mostParsing bounds how many of them are parsed at a time.
	mostParsing = 2
)

// Config sets a Fetcher up.
type Config struct {
	// Dir is where the cache is. It is created if it does not exist, and may be that of several processes.
	Dir string
	// MaxBytes bounds the cache, MaxAge how long it keeps what nobody uses. They default to DefaultMaxBytes and DefaultMaxAge.
	MaxBytes int64
	MaxAge   time.Duration
	// ArchiveBytes bounds an archive, IndexBytes the index of a repository. They default to DefaultArchiveBytes and DefaultIndexBytes.
	ArchiveBytes, IndexBytes int64
	// FreshFor is how long what was looked up is good for. Defaults to DefaultFreshFor.
	FreshFor time.Duration
	// StallAfter is how long a server may send nothing. Defaults to that of package download.
	StallAfter time.Duration
	// Registries say how servers are reached that need something said. All others are known by the authorities of the system, and registries
	// are reached by https. What is said counts for the server whatever it is asked for: a registry's server of tokens may be listed, too, or
	// that of a chart repository.
	Registries []Registry
	// UserAgent is told to servers. Defaults to "pergola-helm-deployer".
	UserAgent string
	// Resolvers are for the charts of the component model; nil for none.
	Resolvers map[chart.Field]chart.Resolver
	// Clock defaults to that of the system.
	Clock clock.WithTicker
	// Transport is what connections are made with, for tests. Defaults to that of net/http.
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
	config     Config
	registries map[string]Registry
	trusts     []download.Trust
	client     *download.Client
	cache      *cache.Cache
	// key makes hashes of credentials worthless for anybody else.
	key []byte

	// files shares downloads, parses the parsing of an index.
	files  flight.Group[*cache.Entry]
	parses flight.Group[index.Versions]
	// parsing has room for those that parse an index, which costs memory and time.
	parsing chan struct{}
	// memos has a memo for each source and its credentials, parsed the index.Versions of charts.
	memos, parsed *lru.Cache
}

// New makes the cache's directory and returns a Fetcher, to be closed.
func New(config Config) (*Fetcher, error) {
	setDefault(&config.MaxBytes, DefaultMaxBytes)
	setDefault(&config.MaxAge, DefaultMaxAge)
	setDefault(&config.ArchiveBytes, DefaultArchiveBytes)
	setDefault(&config.IndexBytes, DefaultIndexBytes)
	setDefault(&config.FreshFor, DefaultFreshFor)
	if config.UserAgent == "" {
		config.UserAgent = "pergola-helm-deployer"
	}
	if config.Clock == nil {
		config.Clock = clock.RealClock{}
	}
	f := &Fetcher{
		config: config, registries: map[string]Registry{}, key: make([]byte, sha256.Size), parsing: make(chan struct{}, mostParsing),
		memos: lru.New(mostMemos), parsed: lru.New(mostParsed),
	}
	if _, err := rand.Read(f.key); err != nil {
		return nil, fmt.Errorf("make key of chart sources: %w", err)
	}
	var err error
	f.client, err = download.New(download.Config{UserAgent: config.UserAgent, StallAfter: config.StallAfter, Transport: config.Transport})
	if err != nil {
		return nil, err
	}
	for _, r := range config.Registries {
		host := keyring.NormalizeHost(r.Host)
		if _, twice := f.registries[host]; twice || host == "" {
			return nil, fmt.Errorf("registry %q: expected a host, each once, but found it empty or twice", r.Host)
		}
		trust := download.Trust{Origin: keyring.OriginOf("https", host), CAData: r.CAData, Insecure: r.InsecureSkipTLSVerify}
		if _, err := f.client.HTTP(trust); err != nil {
			return nil, fmt.Errorf("registry %q: %w", r.Host, err)
		}
		f.registries[host] = r
		f.trusts = append(f.trusts, trust)
	}
	f.files.Share, f.files.Drop = (*cache.Entry).Clone, (*cache.Entry).Release
	f.cache, err = cache.New(cache.Config{Dir: config.Dir, MaxBytes: config.MaxBytes, MaxAge: config.MaxAge, Clock: config.Clock})
	if err != nil {
		return nil, err
	}
	return f, nil
}

// http returns a client for one operation. trust comes before what the operator has said.
func (f *Fetcher) http(trust ...download.Trust) (*http.Client, error) {
	return f.client.HTTP(slices.Concat(f.trusts, trust)...)
}

func setDefault[T int64 | time.Duration](value *T, otherwise T) {
	if *value <= 0 {
		*value = otherwise
	}
}

// Close removes the cache, also archives in use.
func (f *Fetcher) Close() error {
	f.client.Close()
	return f.cache.Close()
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
	// From says where it is from, for people.
	From string

	entry *cache.Entry
}

// Release says that the archive is not used any more. Further calls do nothing.
func (a *Archive) Release() { a.entry.Release() }

// Fetch returns the archive of a chart, to be released. It blocks until that is there or ctx ends. The error is an *sdk.Error, which can be
// returned to the host, or the cause of ctx.
func (f *Fetcher) Fetch(ctx context.Context, req *Request) (*Archive, error) {
	credentials := req.Credentials
	if credentials == nil {
		credentials = &sdk.Credentials{}
	}
	from := req.Source.String()
	var entry *cache.Entry
	var err error
	if o, ok := req.Source.origin.(resolverOrigin); ok {
		entry, from, err = f.resolve(ctx, o, req, credentials)
	} else {
		entry, err = f.fetch(ctx, req.Source, credentials)
	}
	if err != nil {
		return nil, ended(ctx, explain(req.Source, err))
	}
	return &Archive{Path: entry.Path(), Digest: entry.Digest(), From: from, entry: entry}, nil
}

// fetch gets the archive of a source that needs no resolver.
func (f *Fetcher) fetch(ctx context.Context, source Source, credentials *sdk.Credentials) (*cache.Entry, error) {
	switch o := source.origin.(type) {
	case rawOrigin:
		return f.raw(o)
	case remoteOrigin:
		all := credentials.ChartRepositories
		return f.fileAt(ctx, f.archiveAt(o, o.url, keyring.ForURL(all, o.url), all, ""))
	case registryOrigin:
		return f.fromRegistry(ctx, o, credentials)
	case repositoryOrigin:
		return f.fromRepository(ctx, o, credentials)
	default:
		return nil, fail(ReasonSourceInvalid, "nothing says where the chart comes from")
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
	// validators and manifest are how it is seen whether it has changed.
	validators download.Validators
	manifest   string
}

// lookUp finds out what a source has. known is what it had the last time, the zero memo for nothing. Without an entry it has that still.
type lookUp func(ctx context.Context, known memo) (memo, *cache.Entry, error)

// file returns the file of a source: the one that is here if it need not be looked up, or what is found. Those that want the same at the same
// time share it.
func (f *Fetcher) file(ctx context.Context, key string, find lookUp) (*cache.Entry, error) {
	return f.files.Do(ctx, key, func(ctx context.Context) (*cache.Entry, error) {
		known, entry, err := f.recall(key)
		if err != nil {
			return nil, err
		}
		now := f.config.Clock.Now()
		if entry != nil && (known.fixed || now.Sub(known.looked) < f.config.FreshFor) {
			return entry, nil
		}
		found, changed, err := find(ctx, known)
		if err != nil {
			if entry != nil {
				entry.Release()
			}
			return nil, err
		}
		if changed != nil {
			if entry != nil {
				entry.Release()
			}
			entry = changed
		}
		found.digest, found.looked = entry.Digest(), now
		f.memos.Add(key, found)
		return entry, nil
	})
}

// recall returns what is known of a source with its file; nothing if the file is gone.
func (f *Fetcher) recall(key string) (memo, *cache.Entry, error) {
	value, _ := f.memos.Get(key)
	known, ok := value.(memo)
	if !ok {
		return memo{}, nil, nil
	}
	entry, err := f.cache.Get(known.digest)
	if err != nil || entry == nil {
		return memo{}, nil, err
	}
	return known, entry, nil
}

// keyOf is the key of a source for somebody with certain credentials, which cannot be found out from it.
func (f *Fetcher) keyOf(identify func(hash.Hash), parts ...string) string {
	h := hmac.New(sha256.New, f.key)
	keyring.HashFields(h, parts...)
	identify(h)
	return hex.EncodeToString(h.Sum(nil))
}
