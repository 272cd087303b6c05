package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
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

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newItemsCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "items",
		Short: "See DeployItems, what they wait for and what has become of them, and ask for something",
		Long: `See DeployItems, what they wait for and what has become of them, and ask for something.

The commands work with your own kubeconfig and your own rights, as kubectl does, and need no host.`,
	}
	cmd.AddCommand(newItemsListCommand(), newItemsShowCommand(), newItemsTreeCommand(), newItemsWaitCommand(),
		newItemsTriggerCommand(), newItemsAbortCommand(), newItemsForceCommand(), newItemsDiffCommand(),
		newItemsOrphansCommand())
	for _, below := range cmd.Commands() {
		run := below.RunE
		below.RunE = func(cmd *cobra.Command, args []string) error { return asItems(run(cmd, args)) }
	}
	return cmd
}

// asItems gives the errors of a command for items their exit code and what there is to say about rights and
// definitions. One that has an exit code already stays as it is.
func asItems(err error) error {
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		return err
	}
	return failing(withRights(withAdvice(err)))
}

// clusterFlags say which cluster the DeployItems are in, as the flags of kubectl do.
type clusterFlags struct {
	kubeconfig, context, namespace string
	// targetAccount is the targetServiceAccount of the host, where a command looks at Targets.
	targetAccount string
}

func (f *clusterFlags) addTo(flags *pflag.FlagSet) {
	f.addClusterTo(flags)
	flags.StringVarP(&f.namespace, "namespace", "n", "", "namespace of the DeployItems; without it that of the context")
}

// addClusterTo adds what a command needs that looks at all namespaces.
func (f *clusterFlags) addClusterTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems; without it $KUBECONFIG, or ~/.kube/config")
	flags.StringVar(&f.context, "context", "", "context of the kubeconfig to use; without it the current one")
}

// addTargetsTo adds what a command needs that looks at Targets.
func (f *clusterFlags) addTargetsTo(flags *pflag.FlagSet) {
	flags.StringVar(&f.targetAccount, "target-service-account", "",
		"the targetServiceAccount in the configuration of the host, if it has one")
}

// userCluster is the cluster with the DeployItems as a user sees it, with the user's own rights.
type userCluster struct {
	client.WithWatch

	config *rest.Config
	// namespace is the one that the user has named, or that of the kubeconfig's context.
	namespace string
	// targetAccount is the targetServiceAccount of the host.
	targetAccount string
}

// connect does not ask the cluster yet.
func (f *clusterFlags) connect() (*userCluster, error) {
	loader := kubeconfigLoader(f.kubeconfig, &clientcmd.ConfigOverrides{
		CurrentContext: f.context, Context: clientcmdapi.Context{Namespace: f.namespace},
	})
	config, err := findCluster(loader)
	if err != nil {
		return nil, err
	}
	namespace, _, err := loader.Namespace()
	if err != nil {
		return nil, fmt.Errorf("find the namespace: %w", err)
	}
	config.UserAgent = "pergola-items/" + version
	config.WarningHandler, config.QPS = rest.NoWarnings{}, -1 // one command has not much to ask
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

// read connects and reads an item.
func (f *clusterFlags) read(ctx context.Context, name string) (*userCluster, *v1alpha1.DeployItem, error) {
	cluster, err := f.connect()
	if err != nil {
		return nil, nil, err
	}
	item, err := cluster.deployItem(ctx, name)
	return cluster, item, err
}

// follow calls told with the items that the options select: with all of them and no event first, and then with each
// that changes, until told has seen enough. A watch that ends is begun again where it was; if the API server does not
// know that place any more, all are told again.
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
