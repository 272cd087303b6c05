// Package usercluster is the cluster with the DeployItems as the user of a command reaches it: with the user's own
// kubeconfig and rights, as kubectl does.
package usercluster

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

// Flags are the flags for the cluster with the DeployItems, named as those of kubectl.
type Flags struct {
	// UserAgent of the requests, such as "pergola-items/v1.0.0".
	UserAgent                      string
	Kubeconfig, Context, Namespace string
	// TargetAccount is the targetServiceAccount of the host.
	TargetAccount string
}

// AddTo adds the flags for the items of a namespace.
func (f *Flags) AddTo(flags *pflag.FlagSet) {
	f.AddClusterTo(flags)
	flags.StringVarP(&f.Namespace, "namespace", "n", "",
		"namespace of the DeployItems (default: the namespace of the context)")
}

// AddClusterTo adds the flags for all namespaces.
func (f *Flags) AddClusterTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.Kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems (default: $KUBECONFIG, or ~/.kube/config)")
	flags.StringVar(&f.Context, "context", "", "context of the kubeconfig (default: the current context)")
}

// AddTargetsTo adds the flags for access to Targets.
func (f *Flags) AddTargetsTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.TargetAccount, "target-service-account", "",
		"targetServiceAccount in the configuration of the host")
}

// Cluster is the cluster with the DeployItems, with the rights of the user.
type Cluster struct {
	client.WithWatch

	Config *rest.Config
	// Namespace of the flag or of the kubeconfig's context.
	Namespace string
	// TargetAccount is the targetServiceAccount of the host.
	TargetAccount string
}

// Connect returns the cluster without a request.
func (f *Flags) Connect() (*Cluster, error) {
	loader := cli.KubeconfigLoader(f.Kubeconfig, &clientcmd.ConfigOverrides{
		CurrentContext: f.Context, Context: clientcmdapi.Context{Namespace: f.Namespace},
	})
	config, err := cli.FindCluster(loader)
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	config.UserAgent = f.UserAgent
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1 // a command has few requests
	scheme := runtime.NewScheme()
	if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
		return nil, fmt.Errorf("register API types: %w", err)
	}
	reader, err := client.NewWithWatch(config, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("connect to the cluster: %w", err)
	}
	return &Cluster{WithWatch: reader, Config: config, Namespace: namespace, TargetAccount: f.TargetAccount}, nil
}

// Read connects to the cluster and reads an item.
func (f *Flags) Read(ctx context.Context, name string) (*Cluster, *v1alpha1.DeployItem, error) {
	cluster, err := f.Connect()
	if err != nil {
		return nil, nil, err
	}
	item, err := cluster.DeployItem(ctx, name)
	return cluster, item, err
}

// Follow calls told with the selected items: first with all items and no event, then with each changed item, until told
// returns true. After the loss of a watch, told may get all items again.
func (c *Cluster) Follow(
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

// DeployItem reads an item.
func (c *Cluster) DeployItem(ctx context.Context, name string) (*v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	err := c.Get(ctx, client.ObjectKey{Namespace: c.Namespace, Name: name}, item)
	if apierrors.IsNotFound(err) {
		return nil, &NoItemError{namespace: c.Namespace, name: name}
	}
	if err != nil {
		return nil, fmt.Errorf("read DeployItem %q: %w", c.Namespace+"/"+name, err)
	}
	return item, nil
}

// FindHosts returns the hosts of the cluster; nil if the user may not read their Leases.
func (c *Cluster) FindHosts(ctx context.Context) *hostlease.Hosts {
	hosts, err := hostlease.Find(ctx, c, time.Now())
	if err != nil {
		return nil
	}
	return &hosts
}

// NoItemError reports a missing item.
type NoItemError struct {
	namespace, name string
}

func (e *NoItemError) Error() string {
	return fmt.Sprintf("there is no DeployItem %q in the namespace %q; name another DeployItem, or a namespace with -n",
		e.name, e.namespace)
}

// Resolver resolves Targets and Contexts with the user's own rights, by the rules of a host.
func (c *Cluster) Resolver() *target.Resolver {
	return target.NewResolver(c, c, target.Options{
		DefaultContext: true, // Landscaper, or a host without Landscaper, would create it
		ServiceAccount: c.TargetAccount, Tokens: c, Cluster: c.Config,
	})
}

// WithRights adds to a refusal by the API server that the user lacks the rights.
func WithRights(err error) error {
	if apierrors.IsForbidden(err) {
		return fmt.Errorf("%w; this command uses your own rights, not those of the host", err)
	}
	return err
}

// StayingItem reads an item. A deleted item is an error.
func (c *Cluster) StayingItem(ctx context.Context, name string) (*v1alpha1.DeployItem, error) {
	item, err := c.DeployItem(ctx, name)
	if err == nil && item.DeletionTimestamp != nil {
		return nil, fmt.Errorf("the DeployItem %q is being deleted, with its objects; "+
			"no job will change anything else", c.Namespace+"/"+name)
	}
	return item, err
}

// WithCode gives an error its exit code, and advice about rights and definitions. An error with a code is complete.
func WithCode(err error) error {
	if exit := (*cli.ExitError)(nil); errors.As(err, &exit) {
		return err
	}
	return cli.Failing(WithRights(cli.WithAdvice(err)))
}
