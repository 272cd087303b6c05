package target

import (
	"crypto/sha256"
	"maps"
	"net/http"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/pergola-deploy/pergola/plugins/internal/apiserver"
)

const (
	// maxUnused is the time an unused client is kept.
	maxUnused = 10 * time.Minute
	// maxClients bounds the number of clients, used or not.
	maxClients = 200
)

// Cache keeps a client per kubeconfig. It drops clients unused for ten minutes, and the longest unused ones if there
// are too many. It does so within Get, and so needs no goroutine. It is safe for concurrent use.
type Cache struct {
	settings settings

	mu      sync.Mutex
	entries map[[sha256.Size]byte]*entry
}

type entry struct {
	client   *Client
	lastUsed time.Time
}

// settings are common to all clients of a Cache.
type settings struct {
	userAgent string
	wrap      []func(http.RoundTripper) http.RoundTripper
	clock     clock.PassiveClock
	timeouts  timeouts
}

// timeouts bound the wait for a target.
type timeouts struct {
	// Timeouts are those of requests; Connect is also for the first request of a job, because it is answered at once.
	apiserver.Timeouts

	// absence is the time without a kind until it counts as gone without another proof.
	absence time.Duration
}

// Option sets up a Cache.
type Option func(*settings)

// WrapTransport puts a round tripper around the transport of each client, below authentication.
func WrapTransport(wrap func(http.RoundTripper) http.RoundTripper) Option {
	return func(s *settings) { s.wrap = append(s.wrap, wrap) }
}

// WithClock replaces the clock for the age of unused clients.
func WithClock(clk clock.PassiveClock) Option {
	return func(s *settings) { s.clock = clk }
}

// NewCache returns an empty cache. userAgent is the name of its clients for API servers.
func NewCache(userAgent string, opts ...Option) *Cache {
	defaults := timeouts{Timeouts: apiserver.DefaultTimeouts, absence: 30 * time.Second}
	c := &Cache{
		settings: settings{userAgent: userAgent, clock: clock.RealClock{}, timeouts: defaults},
		entries:  map[[sha256.Size]byte]*entry{},
	}
	for _, opt := range opts {
		opt(&c.settings)
	}
	return c
}

// Get returns the client for a kubeconfig, without a request to its cluster. The client stays usable when the cache
// drops it. The error is apiserver.ErrKubeconfig.
func (c *Cache) Get(kubeconfig []byte) (*Client, error) {
	key := sha256.Sum256(kubeconfig)
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.settings.clock.Now()
	c.dropUnused(now)
	if e, ok := c.entries[key]; ok {
		e.lastUsed = now
		return e.client, nil
	}
	client, err := newClient(kubeconfig, c.settings)
	if err != nil {
		return nil, err
	}
	if len(c.entries) >= maxClients {
		c.dropLongestUnused()
	}
	c.entries[key] = &entry{client: client, lastUsed: now}
	return client, nil
}

// dropUnused leaves connections alone: the transport closes idle ones after a while.
func (c *Cache) dropUnused(now time.Time) {
	maps.DeleteFunc(c.entries, func(_ [sha256.Size]byte, e *entry) bool { return now.Sub(e.lastUsed) > maxUnused })
}

func (c *Cache) dropLongestUnused() {
	var oldest [sha256.Size]byte
	var found *entry
	for key, e := range c.entries {
		if found == nil || e.lastUsed.Before(found.lastUsed) {
			oldest, found = key, e
		}
	}
	delete(c.entries, oldest)
}
