package fetch

import (
	"bytes"
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
	// maxMemos bounds the remembered sources.
	maxMemos = 10_000
	// maxTime bounds a download. Its callers may leave earlier.
	maxTime = 30 * time.Minute
)

// Config sets a Fetcher up.
type Config struct {
	// Dir is the parent of the cache's own directory. It is created if it does not exist.
	Dir string
	// MaxBytes bounds the cache, and MaxAge the time without use of a file. They default to DefaultMaxBytes and
	// DefaultMaxAge.
	MaxBytes int64
	MaxAge   time.Duration
	// FreshFor is the time without another lookup of a source. Defaults to DefaultFreshFor.
	FreshFor time.Duration
	// StallAfter bounds the silence of a server. Defaults to DefaultStallAfter.
	StallAfter time.Duration
	// Registries are the servers with special settings. All others are known by the authorities of the system, and
	// registries are reached by https. An entry counts for all requests to its server, also if it is a server of tokens
	// or of a chart repository.
	Registries []Registry
	// UserAgent is sent to servers. Required.
	UserAgent string
	// Clock defaults to the system's.
	Clock clock.PassiveClock
	// Transport makes the connections, for tests. Its DialContext is set. Defaults to that of net/http.
	Transport *http.Transport
}

// Registry has the settings for a registry, also in the configuration document of a plugin.
type Registry struct {
	// Host is its name, with the port unless that is 443.
	Host string `json:"host"`
	// PlainHTTP reaches it by http, with readable credentials on the wire.
	PlainHTTP bool `json:"plainHTTP,omitempty"`
	// InsecureSkipTLSVerify accepts any certificate.
	InsecureSkipTLSVerify bool `json:"insecureSkipTLSVerify,omitempty"`
	// CAData are the only authorities for its certificate, in PEM; empty for those of the system.
	CAData PEM `json:"caData,omitempty"`
}

// PEM are certificates as in a file.
type PEM []byte

// UnmarshalText implements encoding.TextUnmarshaler.
func (p *PEM) UnmarshalText(text []byte) error {
	*p = bytes.Clone(text)
	return nil
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

// PlainHTTP reports whether a registry is reached without TLS, by the operator's setting.
func (f *Fetcher) PlainHTTP(host string) bool { return f.plainHTTP[NormalizeHost(host)] }

// Store reads content of at most limit bytes into the cache and returns the file, to be released. Any error of from
// other than an *Error counts as one of the disk.
func (f *Fetcher) Store(from io.Reader, limit int64, checks ...Check) (*File, error) {
	return f.cache.store(from, limit, checks...)
}

// HasDigest returns a check for a digest; empty for any.
func HasDigest(want string) Check {
	return func(found string, _ []byte) error {
		if want == "" || found == want {
			return nil
		}
		return Errorf(DigestMismatch, "expected the digest %s, but found %s; the archive was replaced or "+
			"damaged after its publication; publish it again", want, found)
	}
}
