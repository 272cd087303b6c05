package host

import (
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// clusterConfig returns the access to a cluster for a host of a version.
func clusterConfig(kubeconfig, version string, limits config.Client) (*rest.Config, error) {
	cluster, err := cli.FindCluster(cli.KubeconfigLoader(kubeconfig, nil))
	if err != nil {
		return nil, err
	}
	cluster.UserAgent = controller.UserAgent + "/" + version
	cluster.WarningHandler = rest.NoWarnings{} // each job has a warning about Landscaper's finalizer
	cluster.Wrap(telemetry.Transport)
	// Nothing but a watch and long lists are compressed, and that costs more processor time than it saves network.
	cluster.DisableCompression = true
	cluster.QPS = -1 // no limit
	if limits.Limited() {
		// One limiter for all clients: QPS and Burst would be limits per kind of object.
		cluster.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(limits.QPS), limits.Burst)
	}
	return cluster, nil
}

// lastWrites is the time for writes after a call with the whole timeouts.shutdown.
const lastWrites = 5 * time.Second

// newManager returns a manager and the source of its DeployItems, of some namespaces or of all. drain bounds running
// calls after the end. The cache has Targets, Contexts, DeployerRegistrations, slim DeployItems, and the metadata of
// Secrets and ConfigMaps.
func newManager(
	cluster *rest.Config, namespaces []string, drain time.Duration, follow *watches, log *slog.Logger,
) (manager.Manager, *itemcache.Source, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, nil, fmt.Errorf("register API types: %w", err)
	}
	source, err := itemcache.NewSource(cluster, scheme, namespaces...)
	if err != nil {
		return nil, nil, err
	}
	mgr, err := manager.New(cluster, manager.Options{
		Scheme:                  scheme,
		Logger:                  managerLogger(log),
		Metrics:                 server.Options{BindAddress: "0"}, // package telemetry serves them
		GracefulShutdownTimeout: &drain,
		Cache:                   cacheOptions(namespaces, follow.following(source.NewInformer)),
		Client: client.Options{
			// The Go types match the definitions: a check for unknown fields costs the API server a second decoding.
			FieldValidation: metav1.FieldValidationIgnore,
			Cache:           &client.CacheOptions{DisableFor: []client.Object{&v1alpha1.DeployItem{}, &corev1.Secret{}}},
		},
	})
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return mgr, source, nil
}

// cacheOptions restricts the cache to some namespaces, or to none. The source of DeployItems does that by itself, so
// that one informer has the items of all of them.
func cacheOptions(namespaces []string, informer newInformer) cache.Options {
	options := cache.Options{
		DefaultTransform: cache.TransformStripManagedFields(),
		NewInformer:      informer,
	}
	if len(namespaces) > 0 {
		options.DefaultNamespaces = map[string]cache.Config{}
		for _, namespace := range namespaces {
			options.DefaultNamespaces[namespace] = cache.Config{}
		}
		options.ByObject = map[client.Object]cache.ByObject{
			&v1alpha1.DeployItem{}: {Namespaces: map[string]cache.Config{}}, // nil would be the default
		}
	}
	return options
}

// managerLogger logs starts and stops of the manager and its controllers at level debug.
func managerLogger(log *slog.Logger) logr.Logger {
	return logr.FromSlogHandler(log.Handler()).V(-int(slog.LevelDebug))
}
