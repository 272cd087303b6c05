package main

import (
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/util/flowcontrol"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/controller"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func clusterConfig(kubeconfig string, limits config.Client) (*rest.Config, error) {
	cluster, err := findCluster(kubeconfigLoader(kubeconfig, nil))
	if err != nil {
		return nil, err
	}
	cluster.UserAgent = controller.UserAgent + "/" + version
	cluster.WarningHandler = rest.NoWarnings{} // such as the one about Landscaper's finalizer, with each job
	cluster.Wrap(telemetry.Transport)
	cluster.QPS = -1 // no limit
	if limits.Limited() {
		// Shared: from QPS and Burst each client of one kind of object would make a limit of its own.
		cluster.RateLimiter = flowcontrol.NewTokenBucketRateLimiter(float32(limits.QPS), limits.Burst)
	}
	return cluster, nil
}

// kubeconfigLoader finds a kubeconfig as kubectl does: the one that is named, or those of $KUBECONFIG, or the one in
// the home directory.
func kubeconfigLoader(named string, overrides *clientcmd.ConfigOverrides) clientcmd.ClientConfig {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	rules.ExplicitPath = named
	return clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
}

func findCluster(loader clientcmd.ClientConfig) (*rest.Config, error) {
	cluster, err := loader.ClientConfig()
	if clientcmd.IsEmptyConfig(err) {
		return nil, fmt.Errorf("find the cluster: there is no kubeconfig that names one at %s; "+
			"say with --kubeconfig or $KUBECONFIG where it is", strings.Join(loader.ConfigAccess().GetLoadingPrecedence(), ", "))
	}
	if err != nil {
		return nil, fmt.Errorf("find the cluster: %w", err)
	}
	return cluster, nil
}

// lastWrites is how long the writes may take that follow a call which has taken all of timeouts.shutdown.
const lastWrites = 5 * time.Second

// newManager returns a manager and the source of its DeployItems. Its cache holds Targets, Contexts, DeployerRegistrations,
// DeployItems without their largest parts (itemcache.Slim), and the metadata of Secrets and ConfigMaps. When it stops, calls under way may
// take the time of drain. How it and its controllers start and stop is logged at level debug.
func newManager(
	cluster *rest.Config, drain time.Duration, log *slog.Logger,
) (manager.Manager, *itemcache.Source, error) {
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, nil, fmt.Errorf("register API types: %w", err)
	}
	source, err := itemcache.NewSource(cluster, scheme)
	if err != nil {
		return nil, nil, err
	}
	mgr, err := manager.New(cluster, manager.Options{
		Scheme:                  scheme,
		Logger:                  logr.FromSlogHandler(log.Handler()).V(-int(slog.LevelDebug)),
		Metrics:                 server.Options{BindAddress: "0"}, // package telemetry serves them
		GracefulShutdownTimeout: &drain,
		Cache: cache.Options{
			DefaultTransform: cache.TransformStripManagedFields(),
			NewInformer:      source.NewInformer,
		},
		Client: client.Options{
			// The types are those of the definitions: to look for unknown fields costs the API server a second decoding.
			FieldValidation: metav1.FieldValidationIgnore,
			Cache:           &client.CacheOptions{DisableFor: []client.Object{&v1alpha1.DeployItem{}, &corev1.Secret{}}},
		},
	})
	if err == nil { // an informer would wait for the definitions
		_, err = mgr.GetRESTMapper().RESTMapping(v1alpha1.DeployItemGVK.GroupKind(), v1alpha1.DeployItemGVK.Version)
	}
	if err != nil {
		return nil, nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return mgr, source, nil
}

// withAdvice adds to an error what to do about it, where the error does not say.
func withAdvice(err error) error {
	if meta.IsNoMatchError(err) {
		return fmt.Errorf("the cluster lacks CustomResourceDefinitions; `pergola crds | kubectl create -f -` installs "+
			"those that are missing, and leaves the others as they are: %w", err)
	}
	// What the clients were about to do when nobody answered, and how they have tried, is of no interest.
	var request *url.Error
	var dialed *net.OpError
	if errors.As(err, &request) && errors.As(request, &dialed) && dialed.Op == "dial" {
		server := request.URL
		if parsed, parseErr := url.Parse(server); parseErr == nil {
			server = parsed.Scheme + "://" + parsed.Host
		}
		return fmt.Errorf("connect to the cluster: the API server %s cannot be reached: %w", server, dialed.Err)
	}
	return err
}
