package items

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newTreeCommand(version string) *cobra.Command {
	cluster := &usercluster.Flags{UserAgent: "pergola-items/" + version}
	cmd := &cobra.Command{
		Use:   "tree ITEM",
		Short: "Show the objects of a DeployItem and their status",
		Long: `Show the objects of a DeployItem and their status.

The objects are those in the status of the item: manifests, the objects of a chart, the Pod of a container. They are
read from the Target of the item with its credentials, for which you need rights as for "pergola items diff".
ReplicaSets, Jobs and Pods are shown below their Deployments and other owners.

An object is Ready, InProgress, Failed or Terminating by the rules of kstatus, or Missing, or Gone after the end of its
work. Unreadable objects are Unknown, with the reason. Of Secrets only the metadata is read.`,
		Example: `  pergola items tree my-item -n my-namespace
  pergola items tree my-item --color always | less -R`,
		Args: cli.Arguments(1),
	}
	flags := cmd.Flags()
	output := cli.AddOutput(flags, cli.FormatYAML)
	colour := cli.AddColour(flags)
	cluster.AddTo(flags)
	cluster.AddTargetsTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		ctx, out := cmd.Context(), cmd.OutOrStdout()
		c, item, err := cluster.Read(ctx, args[0])
		if err != nil {
			return err
		}
		root := inspect.Tree(ctx, item, c, func() (client.Reader, error) {
			target, err := targetOf(ctx, c, item)
			return target, usercluster.WithRights(err)
		})
		return cli.Print(out, output.Value, root, func(bool) string { return root.Text(cli.PaletteFor(colour.Value, out)) })
	}
	return cmd
}

// targetOf returns a reader for the Target of an item.
func targetOf(ctx context.Context, c *usercluster.Cluster, item *v1alpha1.DeployItem) (client.Reader, error) {
	target, err := c.Resolver().Target(ctx, move.View(item, move.Of(item)))
	if err != nil {
		return nil, err
	}
	if target == nil {
		return nil, errors.New("the item has no Target, so their cluster is unknown")
	}
	var content struct {
		Kubeconfig string `json:"kubeconfig"`
	}
	name, targetType := target.Target.Name, target.Target.Spec.Type
	err = json.Unmarshal([]byte(target.Content), &content)
	if err != nil || targetType != v1alpha1.KubernetesClusterTargetType {
		return nil, fmt.Errorf("the Target %q is of type %s, and objects can be read from a %s only",
			name, targetType, v1alpha1.KubernetesClusterTargetType)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(content.Kubeconfig))
	if err != nil {
		return nil, fmt.Errorf("read the kubeconfig of the Target %q: %w", name, err)
	}
	config.QPS, config.UserAgent, config.WarningHandler = -1, c.Config.UserAgent, rest.NoWarnings{}
	reader, err := client.New(config, client.Options{Scheme: runtime.NewScheme()})
	if err != nil {
		return nil, fmt.Errorf("connect to the Target %q: %w", name, err)
	}
	return reader, nil
}
