// Package targetclient gives access to target clusters. A Client is made from a kubeconfig; a Cache keeps Clients by the
// content of their kubeconfigs, so that connections and discovery are shared by all jobs on a target.
package targetclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// requestTimeout bounds a single request, so that a target that hangs is reported long before the time of a job is up. It is
// the time that an API server itself allows.
const requestTimeout = time.Minute

// ErrKubeconfig says that a kubeconfig cannot be used. It does not say why: the reasons quote the kubeconfig.
var ErrKubeconfig = errors.New("the kubeconfig cannot be read")

// Client is the access to one target cluster. It is safe for concurrent use.
type Client struct {
	// Host of the API server, for messages. It holds no credentials.
	Host string

	dynamic   dynamic.Interface
	discovery discovery.DiscoveryInterfaceWithContext
	transport *http.Transport

	// turn is held by who reads or replaces kinds. It is a channel, because who waits for it must not outwait his context.
	turn  chan struct{}
	kinds *kinds
}

// newClient returns a client for a kubeconfig, without talking to its cluster.
func newClient(kubeconfig []byte, userAgent string, wrap func(http.RoundTripper) http.RoundTripper) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, ErrKubeconfig
	}
	host, err := url.Parse(config.Host)
	if err != nil {
		return nil, ErrKubeconfig
	}
	config.UserAgent = userAgent
	config.QPS = -1
	config.WarningHandlerWithContext = rest.NoWarnings{}

	// The transport is made here and not by client-go, which would keep it in a cache of its own for ever.
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, ErrKubeconfig
	}
	transport := utilnet.SetTransportDefaults(&http.Transport{
		TLSClientConfig:     tlsConfig,
		Proxy:               config.Proxy,
		MaxIdleConnsPerHost: 25,
	})
	var tripper http.RoundTripper = transport
	if wrap != nil {
		tripper = wrap(tripper)
	}
	tripper, err = rest.HTTPWrappersForConfig(config, tripper)
	if err != nil {
		return nil, ErrKubeconfig
	}
	httpClient := &http.Client{Transport: tripper, Timeout: requestTimeout}

	dynamicClient, err := dynamic.NewForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, ErrKubeconfig
	}
	discoveryClient, err := discovery.NewDiscoveryClientForConfigAndClient(config, httpClient)
	if err != nil {
		return nil, ErrKubeconfig
	}
	return &Client{
		Host:      host.Host,
		dynamic:   dynamicClient,
		discovery: discoveryClient,
		transport: transport,
		turn:      make(chan struct{}, 1),
	}, nil
}

// Mapping tells where the API server serves the objects of a kind.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// Objects returns access to the objects of a kind in a namespace, which is ignored for a cluster-scoped kind.
func (c *Client) Objects(m Mapping, namespace string) dynamic.ResourceInterface {
	if m.Namespaced {
		return c.dynamic.Resource(m.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(m.Resource)
}

// Mapping looks a kind up. What is known is kept; an unknown kind makes the client ask the API server again, unless it has
// asked since asOf, which is the time that the caller began to work: older knowledge may lack a kind that was defined just
// before, newer knowledge is good enough for a whole call.
//
// The error is a *meta.NoKindMatchError if the API server does not serve the kind. If it could not tell, because the server
// of the kind's group is down, the error says so.
func (c *Client) Mapping(ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time) (Mapping, error) {
	return c.find(ctx, gvk, asOf, func(k *kinds) (Mapping, bool) { return k.exact(gvk) })
}

// MappingInAnyVersion is like Mapping but settles for another version of the kind's group. It is for deleting: the version
// that an object was created in may not be served any more.
func (c *Client) MappingInAnyVersion(ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time) (Mapping, error) {
	return c.find(ctx, gvk, asOf, func(k *kinds) (Mapping, bool) { return k.inAnyVersion(gvk) })
}

func (c *Client) find(
	ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time, lookUp func(*kinds) (Mapping, bool),
) (Mapping, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return Mapping{}, ctx.Err()
	}
	if c.kinds != nil {
		if mapping, ok := lookUp(c.kinds); ok {
			return mapping, nil
		}
	}
	if c.kinds == nil || c.kinds.asked.Before(asOf) {
		kinds, err := discover(ctx, c.discovery)
		if err != nil {
			return Mapping{}, err
		}
		c.kinds = kinds
		if mapping, ok := lookUp(kinds); ok {
			return mapping, nil
		}
	}
	if err := c.kinds.failure(gvk.Group); err != nil {
		return Mapping{}, fmt.Errorf("discover API group %q: %w", gvk.Group, err)
	}
	return Mapping{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

// Forget drops what is known of kinds. A caller uses it when the API server has contradicted a mapping.
func (c *Client) Forget(ctx context.Context) {
	select {
	case c.turn <- struct{}{}:
		c.kinds = nil
		<-c.turn
	case <-ctx.Done():
	}
}

// close gives unused connections back. Requests under way are not affected.
func (c *Client) close() { c.transport.CloseIdleConnections() }
