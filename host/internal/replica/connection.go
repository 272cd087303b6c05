package replica

import (
	"fmt"
	"net/http"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// connection is what is needed to talk to the cluster of the host's pods.
type connection struct {
	config *rest.Config
	http   *http.Client
	scheme *runtime.Scheme
	mapper meta.RESTMapper
	client client.Client // without a cache
}

// connect makes no request. The kinds that are used are known, so the API server need not be asked for them.
func connect(config *rest.Config) (*connection, error) {
	c := &connection{config: rest.CopyConfig(config), scheme: runtime.NewScheme()}
	c.config.QPS = -1
	for _, add := range []func(*runtime.Scheme) error{corev1.AddToScheme, coordinationv1.AddToScheme} {
		if err := add(c.scheme); err != nil {
			return nil, fmt.Errorf("register kinds: %w", err)
		}
	}
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(corev1.SchemeGroupVersion.WithKind("Pod"), meta.RESTScopeNamespace)
	mapper.Add(coordinationv1.SchemeGroupVersion.WithKind("Lease"), meta.RESTScopeNamespace)
	c.mapper = mapper
	var err error
	if c.http, err = rest.HTTPClientFor(c.config); err != nil {
		return nil, fmt.Errorf("make a client of the cluster of the host's pods: %w", err)
	}
	c.client, err = client.New(c.config, client.Options{HTTPClient: c.http, Scheme: c.scheme, Mapper: c.mapper})
	if err != nil {
		return nil, fmt.Errorf("make a client of the cluster of the host's pods: %w", err)
	}
	return c, nil
}
