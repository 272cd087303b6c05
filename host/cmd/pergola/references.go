package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/config"
	"github.com/pergola-deploy/pergola/host/internal/inuse"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// keepReferences has the host keep what items use until they are gone.
func (h *host) keepReferences(ctx context.Context) error {
	switch keep := h.settings.KeepReferences; {
	case keep == config.KeepOff, keep == config.KeepAuto && !h.flags.standalone:
		return nil
	}
	keeper, err := inuse.Setup(ctx, h.manager, inuse.Options{
		Items: h.items.Each, Elected: h.replicas.elected,
	})
	if err != nil {
		return fmt.Errorf("keep what deploy items use: %w", err)
	}
	h.keeper = keeper
	h.replicas.onElection(keeper.ReplicasChanged)
	return nil
}

func newCleanupCommand() *cobra.Command {
	var kubeconfig string
	cmd := &cobra.Command{
		Use:   "cleanup",
		Short: "Remove the finalizers that a host has left on Targets, Contexts and Secrets",
		Long: `Remove the finalizers that a host has left on Targets, Contexts and Secrets, so that they can be deleted although
DeployItems use them. Run it when no host runs any more, or none is to keep them (keepReferences: off): a host that does
puts them back.

DeployItems keep their own finalizer, since only a host can delete what they have deployed.`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			cluster, err := clusterConfig(kubeconfig, config.Client{})
			if err != nil {
				return failing(err)
			}
			scheme := runtime.NewScheme()
			if err := errors.Join(clientgoscheme.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
				return failing(err)
			}
			c, err := client.New(cluster, client.Options{Scheme: scheme})
			if err != nil {
				return failing(withAdvice(err))
			}
			released, err := inuse.Release(cmd.Context(), c)
			if err := printText(cmd.OutOrStdout(), fmt.Sprintf("released %d objects\n", released)); err != nil {
				return err
			}
			return failing(withAdvice(err))
		},
	}
	cmd.Flags().StringVar(&kubeconfig, "kubeconfig", "",
		"kubeconfig of the cluster with the DeployItems; without it $KUBECONFIG, or ~/.kube/config")
	return cmd
}
