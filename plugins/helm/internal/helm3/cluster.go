package helm3

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/dynamic"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	userAgent = "pergola-helm"
	// maxRequests is how many requests are under way at once. Helm would send those for all objects of a kind together.
	maxRequests = 20
)

// cluster is the access to the target, made from nothing but the kubeconfig of the request. It is what Helm gets its clients from.
type cluster struct {
	namespace string
	transport *http.Transport
	// work ends with the context of the request, and books a little later.
	work, books *rest.Config
	discovery   *discoverer
	mapper      *restmapper.DeferredDiscoveryRESTMapper
}

var (
	_ genericclioptions.RESTClientGetter = (*cluster)(nil)
	_ meta.ResettableRESTMapper          = (*restmapper.DeferredDiscoveryRESTMapper)(nil)
)

// newCluster does not talk to the cluster.
func newCluster(o *operation, c *Client) (*cluster, error) {
	config, err := readKubeconfig(o.req.Kubeconfig)
	if err != nil {
		return nil, &helm.Error{Kind: helm.Rejected, Message: err.Error()}
	}
	server, _, err := rest.DefaultServerUrlFor(config)
	if err != nil {
		return nil, &helm.Error{Kind: helm.Rejected, Message: errKubeconfig.Error()}
	}
	tlsConfig, err := rest.TLSConfigFor(config)
	if err != nil {
		return nil, &helm.Error{Kind: helm.Rejected, Message: errKubeconfig.Error()}
	}
	base := utilnet.SetTransportDefaults(&http.Transport{TLSClientConfig: tlsConfig, Proxy: config.Proxy, MaxIdleConnsPerHost: maxRequests})
	authenticated, err := rest.HTTPWrappersForConfig(config, c.wrap(base))
	if err != nil {
		return nil, &helm.Error{Kind: helm.Rejected, Message: errKubeconfig.Error()}
	}
	slots := make(chan struct{}, maxRequests)
	through := func(ctx context.Context) *rest.Config {
		return &rest.Config{
			// The credentials are in the transport, so that Helm does not get them.
			Host: server.String(), UserAgent: userAgent, QPS: -1,
			Transport:      &transport{ctx: ctx, server: server, next: authenticated, slots: slots, refused: o.refused},
			WarningHandler: warnings{o},
		}
	}
	work := through(o.ctx)
	client, err := discovery.NewDiscoveryClientForConfig(work)
	if err != nil {
		return nil, fmt.Errorf("make a client of the target cluster: %w", err)
	}
	known := &discoverer{CachedDiscoveryInterface: memory.NewMemCacheClient(client), o: o}
	return &cluster{
		namespace: o.req.Release.Namespace, transport: base, work: work, books: through(o.books),
		discovery: known, mapper: restmapper.NewDeferredDiscoveryRESTMapper(known),
	}, nil
}

// errKubeconfig does not say more: the reasons quote the kubeconfig.
var errKubeconfig = errors.New("the kubeconfig of the target cannot be read")

// readKubeconfig refuses one that has this process read files or start programs.
func readKubeconfig(content []byte) (*rest.Config, error) {
	kubeconfig, err := clientcmd.Load(content)
	if err != nil {
		return nil, errKubeconfig
	}
	for _, user := range kubeconfig.AuthInfos {
		if user.Exec != nil || user.AuthProvider != nil || user.TokenFile != "" || user.ClientCertificate != "" || user.ClientKey != "" {
			return nil, errors.New("the kubeconfig of the target refers to programs or files, and must hold the credentials itself")
		}
	}
	for _, server := range kubeconfig.Clusters {
		if server.CertificateAuthority != "" {
			return nil, errors.New("the kubeconfig of the target refers to a file of certificates, and must hold them itself")
		}
	}
	config, err := clientcmd.NewDefaultClientConfig(*kubeconfig, &clientcmd.ConfigOverrides{}).ClientConfig()
	if err != nil {
		return nil, errKubeconfig
	}
	return config, nil
}

// ToRESTConfig returns a config whose requests end with the request.
func (c *cluster) ToRESTConfig() (*rest.Config, error) { return rest.CopyConfig(c.work), nil }

// ToDiscoveryClient returns the client that all share.
func (c *cluster) ToDiscoveryClient() (discovery.CachedDiscoveryInterface, error) {
	return c.discovery, nil
}

// ToRESTMapper returns the mapper that all share.
func (c *cluster) ToRESTMapper() (meta.RESTMapper, error) { return c.mapper, nil }

// ToRawKubeConfigLoader returns an empty kubeconfig with the namespace of the release. Nobody needs more of it.
func (c *cluster) ToRawKubeConfigLoader() clientcmd.ClientConfig {
	return clientcmd.NewDefaultClientConfig(*clientcmdapi.NewConfig(), &clientcmd.ConfigOverrides{
		Context: clientcmdapi.Context{Namespace: c.namespace},
	})
}

// core returns a client for the books.
func (c *cluster) core() (corev1client.CoreV1Interface, error) {
	client, err := corev1client.NewForConfig(c.books)
	if err != nil {
		return nil, fmt.Errorf("make a client of the target cluster: %w", err)
	}
	return client, nil
}

// GetClientFor finds what a template looks up, without the discovery that Helm does each time.
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

// discoverer asks for the version once. Helm asks for it when it is about to render.
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
	d.o.enter(rendering)
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

// warnings writes those of the API server to the log, such as those about fields that it does not know.
type warnings struct{ o *operation }

// HandleWarningHeader is called for each warning of an answer.
func (w warnings) HandleWarningHeader(code int, _, text string) {
	const miscellaneous = 299 // the only code that API servers use
	if code == miscellaneous {
		w.o.log("warning: %s", text)
	}
}
