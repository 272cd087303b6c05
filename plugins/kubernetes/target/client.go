// Package target gives deployers for Kubernetes access to target clusters. A Client is made from a kubeconfig; a Cache
// keeps Clients by the content of their kubeconfigs, so that all jobs on a target share connections and discovery.
// Explain translates an error of a target into its meaning for a job: which errors end it, and which pass. The requests
// go the way of package apiserver, which also has the config for other clients.
//
// The workers of the host, shared by all targets, are free after ten seconds if a target does not answer at the start
// of a job, and after a minute if it falls silent later.
package target

import (
	"context"
	"fmt"
	"net/url"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// Client is the access to one target cluster. It is safe for concurrent use.
type Client struct {
	// Host of the API server, for messages. It holds no credentials.
	Host string

	// server is the address of the API server. Its path tells clusters behind one host apart.
	server    string
	dynamic   dynamic.Interface
	metadata  metadata.Interface
	core      corev1client.CoreV1Interface
	discovery discovery.DiscoveryInterfaceWithContext
	timeouts  timeouts

	kinds shared[*kinds]
	// absent has the time of the first failed search for a kind, by absenceKey; see Doubt.
	absent sync.Map
	// cluster is the answer of Cluster.
	cluster shared[types.UID]
}

// newClient returns a client for a kubeconfig, without a request to its cluster. The error is
// apiserver.ErrKubeconfig.
func newClient(kubeconfig []byte, s settings) (*Client, error) {
	config, err := apiserver.Config(kubeconfig, apiserver.Options{
		UserAgent: s.userAgent, Wrap: s.wrap, Timeouts: s.timeouts.Timeouts,
	})
	if err != nil {
		return nil, err
	}
	server, err := url.Parse(config.Host)
	if err != nil {
		return nil, apiserver.ErrKubeconfig
	}
	c := &Client{Host: server.Host, server: server.Host + server.Path, timeouts: s.timeouts}
	return c, c.connect(config)
}

// connect makes the clients of client-go.
func (c *Client) connect(config *rest.Config) error {
	httpClient, err := rest.HTTPClientFor(config)
	if err != nil {
		return apiserver.ErrKubeconfig
	}
	if c.dynamic, err = dynamic.NewForConfigAndClient(config, httpClient); err != nil {
		return apiserver.ErrKubeconfig
	}
	if c.metadata, err = metadata.NewForConfigAndClient(config, httpClient); err != nil {
		return apiserver.ErrKubeconfig
	}
	if c.core, err = corev1client.NewForConfigAndClient(config, httpClient); err != nil {
		return apiserver.ErrKubeconfig
	}
	if c.discovery, err = discovery.NewDiscoveryClientForConfigAndClient(config, httpClient); err != nil {
		return apiserver.ErrKubeconfig
	}
	return nil
}

// SameServer reports whether two clients have the same API server, possibly with different credentials.
func (c *Client) SameServer(other *Client) bool { return c.server == other.server }

// Cluster returns the identity of the cluster, independent of the address of its API server: the UID of the namespace
// kube-system. It is empty if these credentials may not read that namespace or there is none. An answer from before
// since is asked for anew: an address may lead elsewhere by now.
func (c *Client) Cluster(ctx context.Context, since time.Time) (types.UID, error) {
	return c.cluster.get(ctx, since, c.timeouts.Connect, c.readCluster)
}

func (c *Client) readCluster(ctx context.Context) (types.UID, error) {
	namespaces := Mapping{Resource: schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}}
	found, err := c.Metadata(namespaces, "").Get(ctx, metav1.NamespaceSystem, metav1.GetOptions{})
	switch {
	case err == nil:
		return found.UID, nil
	case apierrors.IsForbidden(err), apierrors.IsNotFound(err):
		return "", nil
	default:
		return "", fmt.Errorf("read the namespace %s of the target: %w", metav1.NamespaceSystem, err)
	}
}

// Objects returns access to the objects of a kind in a namespace; a cluster-scoped kind ignores it.
func (c *Client) Objects(m Mapping, namespace string) dynamic.ResourceInterface {
	if m.Namespaced {
		return c.dynamic.Resource(m.Resource).Namespace(namespace)
	}
	return c.dynamic.Resource(m.Resource)
}

// Metadata is like Objects but only for the metadata of the objects.
func (c *Client) Metadata(m Mapping, namespace string) metadata.ResourceInterface {
	if m.Namespaced {
		return c.metadata.Resource(m.Resource).Namespace(namespace)
	}
	return c.metadata.Resource(m.Resource)
}

// Core returns typed access to the objects of Kubernetes' core group.
func (c *Client) Core() corev1client.CoreV1Interface { return c.core }

// Mapping looks a kind up. Known kinds are kept. For an unknown kind the client asks the API server again, unless it
// has asked since asOf, the start of the caller's work: older knowledge may lack a kind defined just before, newer
// knowledge is good enough for a whole call.
//
// The error is a *meta.NoKindMatchError if the API server does not serve the kind, and a *GroupError if the server of
// the kind's group is down.
func (c *Client) Mapping(ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time) (Mapping, error) {
	return c.find(ctx, gvk, asOf, func(k *kinds) (Mapping, bool) { return k.exact(gvk) })
}

// MappingInAnyVersion is like Mapping but accepts another version of the kind's group. It is for deletion: the
// version of the object's creation may not be served any more.
func (c *Client) MappingInAnyVersion(
	ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time,
) (Mapping, error) {
	return c.find(ctx, gvk, asOf, func(k *kinds) (Mapping, bool) { return k.inAnyVersion(gvk) })
}

// MappingByName is like MappingInAnyVersion but takes any name of the kind, whatever its case: "ConfigMap",
// "configmaps" and "configmap" are the same. It returns the kind with its own name, in the version of the mapping.
func (c *Client) MappingByName(
	ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time,
) (schema.GroupVersionKind, Mapping, error) {
	var found schema.GroupVersionKind
	mapping, err := c.find(ctx, gvk, asOf, func(k *kinds) (m Mapping, ok bool) {
		found, m, ok = k.named(gvk)
		return m, ok
	})
	return found, mapping, err
}

// Lookup returns the client of another Target named by a provider configuration; the empty name stands for the deploy
// item's own. It may be called from several goroutines. Its error is about the Target.
type Lookup func(ctx context.Context, targetName string) (*Client, error)

func (c *Client) find(
	ctx context.Context, gvk schema.GroupVersionKind, asOf time.Time, lookUp func(*kinds) (Mapping, bool),
) (Mapping, error) {
	var failure error
	for _, since := range []time.Time{{}, asOf} { // any knowledge of the kind is good enough
		known, err := c.kinds.get(ctx, since, c.timeouts.Answer, c.discover)
		if err != nil {
			return Mapping{}, err
		}
		if mapping, ok := lookUp(known); ok {
			c.absent.Delete(absenceKey(gvk))
			return mapping, nil
		}
		failure = known.failed[gvk.Group]
	}
	if failure != nil {
		return Mapping{}, &GroupError{Group: gvk.Group, Err: failure}
	}
	return Mapping{}, &meta.NoKindMatchError{GroupKind: gvk.GroupKind(), SearchedVersions: []string{gvk.Version}}
}

func (c *Client) discover(ctx context.Context) (*kinds, error) { return discover(ctx, c.discovery) }

// Forget drops all known kinds. A caller uses it when the API server has contradicted a mapping.
func (c *Client) Forget() { c.kinds.forget() }
