package host

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// NewCleanupCommand returns the command "cleanup" of a version of the program.
func NewCleanupCommand(version string) *cobra.Command {
	var kubeconfig string
	var namespaces []string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the finalizers of a host from Targets, Contexts and Secrets",
		Long: `Remove the finalizers of a host from Targets, Contexts and Secrets, so that they can be deleted although
DeployItems use them. Stop all hosts before, or set keepReferences to off in their configurations: otherwise they add
the finalizers again.

DeployItems keep their own finalizer, since only a host can delete their objects.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := clusterConfig(kubeconfig, version, config.Client{})
			if err != nil {
				return cli.Failing(err)
			}
			scheme := runtime.NewScheme()
			if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
				return cli.Failing(err)
			}
			c, err := client.New(cluster, client.Options{Scheme: scheme})
			if err != nil {
				return cli.Failing(cli.WithAdvice(err))
			}
			if len(namespaces) == 0 {
				namespaces = []string{metav1.NamespaceAll}
			}
			released := 0
			var errs []error
			for _, namespace := range namespaces {
				n, err := inuse.Release(cmd.Context(), c, client.InNamespace(namespace))
				released, errs = released+n, append(errs, err)
			}
			if err := cli.PrintText(cmd.OutOrStdout(), fmt.Sprintf("released %d objects\n", released)); err != nil {
				return err
			}
			return cli.Failing(cli.WithAdvice(errors.Join(errs...)))
		},
	}
	cmd.Flags().StringSliceVar(&namespaces, "namespaces", nil,
		"namespaces of the host, as in its configuration (default: all)")
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems (default: $KUBECONFIG, or ~/.kube/config)")
	return cmd
}
