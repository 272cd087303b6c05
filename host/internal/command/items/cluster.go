package items

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/pflag"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	watchtools "k8s.io/client-go/tools/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// clusterFlags are the flags for the cluster with the DeployItems, named as those of kubectl.
type clusterFlags struct {
	// version of this program, for the user agent.
	version                        string
	kubeconfig, context, namespace string
	// targetAccount is the targetServiceAccount of the host.
	targetAccount string
}

// addTo adds the flags for the items of a namespace.
func (f *clusterFlags) addTo(flags *pflag.FlagSet) {
	f.addClusterTo(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "",
		"namespace of the DeployItems (default: the namespace of the context)")
}

// addClusterTo adds the flags for all namespaces.
func (f *clusterFlags) addClusterTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig (default: the current context)")
}

// addTargetsTo adds the flags for access to Targets.
func (f *clusterFlags) addTargetsTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.targetAccount, "target-service-account", "",
		"targetServiceAccount in the configuration of the host")
}

// userCluster is the cluster with the DeployItems, with the rights of the user.
type userCluster struct {
	client.WithWatch

	config *rest.Config
	// namespace of the flag or of the kubeconfig's context.
	namespace string
	// targetAccount is the targetServiceAccount of the host.
	targetAccount string
}

// connect returns the cluster without a request.
func (f *clusterFlags) connect() (*userCluster, error) {
	loader := cli.KubeconfigLoader(f.kubeconfig, &clientcmd.ConfigOverrides{
		CurrentContext: f.context, Context: clientcmdapi.Context{Namespace: f.namespace},
	})
	config, err := cli.FindCluster(loader)
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	config.UserAgent = "pergola-items/" + f.version
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1 // a command has few requests
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	reader, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &userCluster{WithWatch: reader, config: config, namespace: namespace, targetAccount: f.targetAccount}, nil
}

// read connects to the cluster and reads an item.
func (f *clusterFlags) read(ctx context.Context, name string) (*userCluster, *v1alpha1.DeployItem, error) {
	cluster, err := f.connect()
	if err != nil {
		return nil, nil, err
	}
	item, err := cluster.deployItem(ctx, name)
	return cluster, item, err
}

// follow calls told with the selected items: first with all items and no event, then with each changed item, until told
// returns true. After the loss of a watch, told may get all items again.
func (c *userCluster) follow(
	ctx context.Context, options []client.ListOption,
	told func([]v1alpha1.DeployItem, watch.EventType) (done bool, err error),
) error {
	follow := func(ctx context.Context, raw metav1.ListOptions) (watch.Interface, error) {
		from := append([]client.ListOption{&client.ListOptions{Raw: &raw}}, options...)
		return c.Watch(ctx, &v1alpha1.DeployItemList{}, from...)
	}
	watcher := &cache.ListWatch{WatchFuncWithContext: follow}
	for {
		list := &v1alpha1.DeployItemList{}
		if err := c.List(ctx, list, options...); err != nil {
			return fmt.Errorf("list DeployItems: %w", err)
		}
		if done, err := told(list.Items, ""); done || err != nil {
			return err
		}
		_, err := watchtools.Until(ctx, list.ResourceVersion, watcher, func(event watch.Event) (bool, error) {
			if item, ok := event.Object.(*v1alpha1.DeployItem); ok {
				return told([]v1alpha1.DeployItem{*item}, event.Type)
			}
			return false, apierrors.FromObject(event.Object)
		})
		if !apierrors.IsResourceExpired(err) && !apierrors.IsGone(err) {
			return err
		}
	}
}

// deployItem reads an item.
func (c *userCluster) deployItem(ctx context.Context, name string) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.namespace, Name: name}, item)
	if apierrors.IsNotFound(err) {
		return nil, &noItemError{namespace: c.namespace, name: name}
	}
	if err != nil {
		return nil, fmt.Errorf("read DeployItem %q: %w", c.namespace+"/"+name, err)
	}
	return item, nil
}

// findHosts returns the hosts of the cluster; nil if the user may not read their Leases.
func (c *userCluster) findHosts(ctx context.Context) *hostlease.Hosts {
	hosts, err := hostlease.Find(ctx, c, time.Now())
	if err != nil {
		return nil
	}
	return &hosts
}

// noItemError reports a missing item.
type noItemError struct {
	namespace, name string
}

func (e *noItemError) Error() string {
	return fmt.Sprintf("there is no DeployItem %q in the namespace %q; name another DeployItem, or a namespace with -n",
		e.name, e.namespace)
}

// resolver resolves Targets and Contexts with the user's own rights, by the rules of a host.
func (c *userCluster) resolver() *target.Resolver {
	return target.NewResolver(c, c, target.Options{
		DefaultContext: true, // Landscaper, or a host without Landscaper, would create it
		ServiceAccount: c.targetAccount, Tokens: c, Cluster: c.config,
	})
}

// withRights adds to a refusal by the API server that the user lacks the rights.
func withRights(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; this command uses your own rights, not those of the host", err)
	}
	return err
}
