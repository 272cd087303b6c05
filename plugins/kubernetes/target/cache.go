package target

import (
	"net/http"
	"time"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/clients"
)

// Cache keeps a client per kubeconfig, as clients.Cache does. It is safe for concurrent use.
type Cache struct {
	settings settings
	clients  clients.Cache[*Client]
}

// settings are common to all clients of a Cache.
type settings struct {
	userAgent string
	wrap      []func(http.RoundTripper) http.RoundTripper
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

// NewCache returns an empty cache. userAgent is the name of its clients for API servers.
func NewCache(userAgent string, opts ...Option) *Cache {
	defaults := timeouts{Timeouts: apiserver.DefaultTimeouts, absence: 30 * time.Second}
	c := &Cache{settings: settings{userAgent: userAgent, timeouts: defaults}}
	for _, opt := range opts {
		opt(&c.settings)
	}
	return c
}

// For returns the client for a Target with a kubeconfig, without a request to its cluster. The error is an *sdk.Error
// with sdk.ReasonTargetMissing or sdk.ReasonTargetInvalid, without content of the Target; it can be returned as it is.
func (c *Cache) For(t *sdk.Target) (*Client, error) {
	kubeconfig, err := t.Kubeconfig()
	if err != nil {
		return nil, err
	}
	client, err := c.Get(kubeconfig)
	if err != nil {
		return nil, sdk.ConfigurationError(sdk.ReasonTargetInvalid, "Target %q: %w", t.Name, err)
	}
	return client, nil
}

// Get returns the client for a kubeconfig, without a request to its cluster. The client stays usable when the cache
// drops it. The error is apiserver.ErrKubeconfig.
func (c *Cache) Get(kubeconfig []byte) (*Client, error) {
	return c.clients.Get(kubeconfig, func() (*Client, error) { return newClient(kubeconfig, c.settings) })
}
