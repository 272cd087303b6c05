package helm3

import (
	"context"
	"fmt"
	"net/http"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm3/journal"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/apiserver"
)

// cluster is the access to the target, and gives Helm its clients.
type cluster struct {
	namespace string
	// work ends with the context of the request, and cleanup a little later.
	work, cleanup *rest.Config
	discovery     *discoverer
	mapper        *restmapper.DeferredDiscoveryRESTMapper
}

var (
	_ genericclioptions.RESTClientGetter = (*cluster)(nil)
	_ meta.ResettableRESTMapper          = (*restmapper.DeferredDiscoveryRESTMapper)(nil)
)

// newCluster sends no request.
func newCluster(o *operation, wrap []func(http.RoundTripper) http.RoundTripper) (*cluster, error) {
	config, err := apiserver.Config(o.req.Kubeconfig, apiserver.Options{
		UserAgent: "pergola-helm", Wrap: wrap, Timeouts: apiserver.DefaultTimeouts,
	})
	if err != nil {
		return nil, journal.Failure(helm.Rejected, "%v", err)
	}
	permit := sync.OnceValue(o.announce)
	through := func(ctx context.Context) *rest.Config {
		ctx = apiserver.WithNames(apiserver.WithHidden(ctx, o.journal.Hide))
		if o.req.Action != helm.Render { // its dry runs change nothing, and it need not be a job's
			ctx = apiserver.WithPermission(ctx, func(context.Context) error { return permit() })
		}
		out := rest.CopyConfig(config)
		out.Transport = &transport{
			ctx: ctx, next: config.Transport,
			warn: func(about, text string) { o.journal.Warn(helm.ReasonTarget, "%s: %s", about, text) },
		}
		return out
	}
	work := through(o.ctx)
	client, err := discovery.NewDiscoveryClientForConfig(work)
	if err != nil {
		return nil, fmt.Errorf("make a client of the target cluster: %w", err)
	}
	known := &discoverer{CachedDiscoveryInterface: memory.NewMemCacheClient(client), o: o}
	return &cluster{
		namespace: o.req.Release.Namespace, work: work, cleanup: through(o.cleanup),
		discovery: known, mapper: restmapper.NewDeferredDiscoveryRESTMapper(known),
	}, nil
}

// ToRESTConfig returns a config; its requests end with the request to Helm.
func (c *cluster) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(c.work), nil }

// ToDiscoveryClient returns the shared client.
func (c *cluster) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return c.discovery, nil
}

// ToRESTMapper returns the shared mapper.
func (c *cluster) ToRESTMapper() (meta.RESTMapper, error) { return c.mapper, nil }

// ToRawKubeConfigLoader returns an empty kubeconfig with the namespace of the release; Helm needs no more of it.
func (c *cluster) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: c.namespace},
	})
}

// GetClientFor returns a client for the function lookup of templates, without Helm's discovery at each call.
func (c *cluster) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	mapping, err := c.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil {
		return nil, false, err
	}
	client, err := dynamic.NewForConfig(c.work)
	if err != nil {
		return nil, false, err
	}
	return client.Resource(mapping.Resource), mapping.Scope.Name() == meta.RESTScopeNameNamespace, nil
}

// discoverer asks for the version once. Helm asks for it before each rendering.
type discoverer struct {
	discovery.CachedDiscoveryInterface

	o     *operation
	known *version.Info
}

// ServerVersion is called by Helm right before it renders.
func (d *discoverer) ServerVersion() (*version.Info, error) {
	known, err := d.version()
	if err != nil {
		return nil, err
	}
	d.o.journal.Enter(journal.Rendering)
	return known, nil
}

func (d *discoverer) version() (*version.Info, error) {
	if d.known == nil {
		known, err := d.CachedDiscoveryInterface.ServerVersion()
		if err != nil {
			return nil, err
		}
		d.known = known
	}
	return d.known, nil
}
