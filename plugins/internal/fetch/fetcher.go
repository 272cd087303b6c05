package fetch

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync"
	"time"

	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// The defaults of Config.
const (
	DefaultMaxBytes   = 512 << 20
	DefaultMaxAge     = 24 * time.Hour
	DefaultFreshFor   = 10 * time.Second
	DefaultStallAfter = time.Minute
)

const (
	// maxMemos bounds how many sources are remembered.
	maxMemos = 10_000
	// maxTime bounds a download. Its callers may leave earlier.
	maxTime = 30 * time.Minute
)

// Config sets a Fetcher up.
type Config struct {
	// Dir is where the cache makes its own directory. It is created if it does not exist.
	Dir string
	// MaxBytes bounds the cache, and MaxAge the time without use of a file. They default to DefaultMaxBytes and
	// DefaultMaxAge.
	MaxBytes int64
	MaxAge   time.Duration
	// FreshFor is how long what was looked up is good for. Defaults to DefaultFreshFor.
	FreshFor time.Duration
	// StallAfter is how long a server may send nothing. Defaults to DefaultStallAfter.
	StallAfter time.Duration
	// Registries say how servers are reached that need something said. All others are known by the authorities of the
	// system, and registries are reached by https. An entry counts for all requests to
	// its server, which may also be a server of tokens or of a chart repository.
	Registries []Registry
	// UserAgent is told to servers. Required.
	UserAgent string
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

// Fetcher gets content into a cache on disk. Its methods can be called concurrently.
type Fetcher struct {
	config    Config
	plainHTTP map[string]bool
	router    router
	cache     *cache

	// memos has a Memo for each source.
	memos *lru.Cache

	mu        sync.Mutex
	downloads map[string]*download // by source
}

// New makes the cache's directory and returns a Fetcher, to be closed.
func New(config Config) (*Fetcher, error) {
	config.MaxBytes = cmp.Or(config.MaxBytes, DefaultMaxBytes)
	config.MaxAge = cmp.Or(config.MaxAge, DefaultMaxAge)
	config.FreshFor = cmp.Or(config.FreshFor, DefaultFreshFor)
	config.StallAfter = cmp.Or(config.StallAfter, DefaultStallAfter)
	config.Clock = cmp.Or[clock.PassiveClock](config.Clock, clock.RealClock{})
	f := &Fetcher{
		config: config, plainHTTP: map[string]bool{}, downloads: map[string]*download{}, memos: lru.New(maxMemos),
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
	host := NormalizeHost(r.Host)
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
	f.router.special[ServerOf(&url.URL{Scheme: "https", Host: host})] = t
	return nil
}

// Close removes the cache, also files in use.
func (f *Fetcher) Close() error {
	f.router.close()
	return f.cache.close()
}

// PlainHTTP reports whether a registry is reached without TLS, as the operator has said.
func (f *Fetcher) PlainHTTP(host string) bool { return f.plainHTTP[NormalizeHost(host)] }

// Store reads content of at most limit bytes into the cache and returns the file, to be released. Errors of from that
// are no *Error are taken for those of the disk.
func (f *Fetcher) Store(from io.Reader, limit int64, checks ...Check) (*File, error) {
	return f.cache.store(from, limit, checks...)
}

// HasDigest returns a check for a digest; empty for any.
func HasDigest(want string) Check {
	return func(found string, _ []byte) error {
		if want == "" || found == want {
			return nil
		}
		return Errorf(DigestMismatch, "expected the digest %s, but found %s; the archive was replaced or spoiled "+
			"after it was published, publish it again", want, found)
	}
}
