// Package targetclient gives access to target clusters. A Client is made from a kubeconfig; a Cache keeps Clients by the
// content of their kubeconfigs, so that connections and discovery are shared by all jobs on a target.
//
// A Client limits the rate of its requests and lets the calls that use it take turns, see ForCall. Nobody waits for a target that does not
// answer: when it has left all requests unanswered for five seconds and does not answer the question for its version for another five, all
// requests end with a *NoAnswerError, and new ones fail at once until the target answers that question. So the workers of the host, which
// all targets share, are free after ten seconds.
package targetclient

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1client "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
)

// ErrKubeconfig says that a kubeconfig cannot be used. It does not say why: the reasons quote the kubeconfig.
var ErrKubeconfig = errors.New("the kubeconfig cannot be read")

// Client is the access to one target cluster. It is safe for concurrent use.
type Client struct {
	// Host of the API server, for messages. It holds no credentials.
	Host string

	// server is the address of the API server, whose path tells clusters behind one host apart.
	server    string
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	core      corev1client.CoreV1Interface
	rbac      rbacv1client.RbacV1Interface
	discovery discovery.DiscoveryInterfaceWithContext
	guard     *guard
	transport *http.Transport

	// turn is held by who reads or replaces kinds or cluster. It is a channel, because who waits for it must not outwait his context.
	turn  chan struct{}
	kinds *kinds
	// cluster is what Cluster returns, and clusterRead when it was read; zero as long as it was not.
	cluster     types.UID
	clusterRead time.Time
}

// newClient returns a client for a kubeconfig, without talking to its cluster.
func newClient(kubeconfig []byte, s settings) (*Client, error) {
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	if err != nil {
		return nil, ErrKubeconfig
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, ErrKubeconfig
	}
	config.UserAgent = s.userAgent
	config.QPS = -1 // the limiter of client-go is not fair
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
	c := &Client{Host: server.Host, server: server.Host + server.Path, guard: newGuard(transport, server, s), transport: transport, turn: make(chan struct{}, 1)}
	tripper, err := rest.HTTPWrappersForConfig(config, tracing.Transport(c.guard))
	if err != nil {
		return nil, ErrKubeconfig
	}
	return c, c.connect(config, &http.Client{Transport: tripper})
}

// newGuard returns what stands between the authentication and the transport.
func newGuard(transport *http.Transport, server *url.URL, s settings) *guard {
	var next http.RoundTripper = transport
	if s.wrap != nil {
		next = s.wrap(next)
	}
	return &guard{
		server:  server,
		clock:   s.clock,
		limiter: newLimiter(s.clock, s.perSecond, s.burst),
		pulse: newPulse(s.clock, func(ctx context.Context, reconnect bool) error {
			if reconnect {
				transport.CloseIdleConnections()
			}
			return askVersion(ctx, transport, server)
		}),
		next: next,
	}
}

// askVersion returns nil if there is any answer. It needs no credentials: a refusal is an answer.
func askVersion(ctx context.Context, transport http.RoundTripper, server *url.URL) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, server.JoinPath("version").String(), http.NoBody)
	if err != nil {
		return fmt.Errorf("probe the target: %w", err)
	}
	res, err := transport.RoundTrip(req)
	if err != nil {
		return err
	}
	// The rest of the answer is of no use.
	_ = res.Body.Close()
	return nil
}

// connect makes the clients of client-go.
func (c *Client) connect(config *rest.Config, httpClient *http.Client) (err error) {
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return ErrKubeconfig
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return ErrKubeconfig
	}
	if c.core, err = corev1client.NewForConfigAndClient(config, httpClient); err != nil {
		return ErrKubeconfig
	}
	if c.rbac, err = rbacv1client.NewForConfigAndClient(config, httpClient); err != nil {
		return ErrKubeconfig
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, httpClient); err != nil {
		return ErrKubeconfig
	}
	return nil
}

// SameServer tells whether two clients talk to the same API server, be it with other credentials.
func (c *Client) SameServer(other *Client) bool { return c.server == other.server }

// Cluster tells the cluster from all others, whatever its API server is called: it is the UID of the namespace kube-system. It is empty if
// nobody knows, because these credentials may not read that namespace or there is none. The API server is asked again if it was asked last
// before since: an address may lead elsewhere by now.
func (c *Client) Cluster(ctx context.Context, since time.Time) (types.UID, error) {
	select {
	case c.turn <- struct{}{}:
		defer func() { <-c.turn }()
	case <-ctx.Done():
		return "", ctx.Err()
	}
	if !c.clusterRead.IsZero() && !c.clusterRead.Before(since) {
		return c.cluster, nil
	}
	now := time.Now()
	namespaces := Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	var uid types.UID
	found, err := c.Metadata(namespaces, "").Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case err == nil:
		uid = found.UID
	case !apierrors.IsForbidden(err) && !apierrors.IsNotFound(err):
		return "", fmt.Errorf("read the namespace %s of the target: %w", metav1.NamespaceSystem, err)
	}
	c.cluster, c.clusterRead = uid, now
	return uid, nil
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

// Metadata is like Objects but gives access to nothing but the metadata of the objects.
func (c *Client) Metadata(m Mapping, namespace string) metadata.ResourceInterface {
	if m.Namespaced {
		return c.metadata.Resource(m.Resource).Namespace(namespace)
	}
	return c.metadata.Resource(m.Resource)
}

// Core returns access to the objects of Kubernetes' core group with their types.
func (c *Client) Core() corev1client.CoreV1Interface { return c.core }

// RBAC is like Core for the group of roles.
func (c *Client) RBAC() rbacv1client.RbacV1Interface { return c.rbac }

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

// MappingByName is like MappingInAnyVersion but takes any name of the kind, whatever its case: "ConfigMap", "configmaps" and "configmap"
// are the same. It returns the kind with its own name, in the version of the mapping.
func (c *Client) MappingByName(ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time) (schema.GroupVersionKind, Mapping, error) {
	var found schema.GroupVersionKind
	mapping, err := c.find(ctx, gvk, asOf, func(k *kinds) (m Mapping, ok bool) {
		found, m, ok = k.named(gvk)
		return m, ok
	})
	return found, mapping, err
}

// Lookup returns the client of another Target that a provider configuration names; the empty name stands for the deploy item's own. It may
// be called from several goroutines. Its error says what is wrong with the Target.
type Lookup func(ctx context.Context, targetName string) (*Client, error)

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

// close gives unused connections back. Requests under way are not affected; their connections are closed when they have not been used for
// a while. There is nothing else to end: only requests have goroutines.
func (c *Client) close() { c.transport.CloseIdleConnections() }
