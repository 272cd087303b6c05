package items

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newShowCommand(version string) *cobra.Command {
	flags := &usercluster.Flags{UserAgent: "pergola-items/" + version}
	cmd := &cobra.Command{
		Use:     "show ITEM",
		Aliases: []string{"describe"},
		Short:   "Show all details of a DeployItem",
		Long: `Show all details of a DeployItem: its Target, its job and the reason for its wait, its last error with
advice, its exports, conditions and events. Nothing of secrets is shown.

The Target is resolved with your own rights, as a host does it: you need "get" for it and its secret, and "create" for
serviceaccounts/token if it has a ServiceAccount.`,
		Example: `  pergola items show my-item -n my-namespace
  pergola items show my-item -o yaml`,
		Args: cli.Arguments(1),
	}
	output := cli.AddOutput(cmd.Flags(), cli.FormatYAML)
	flags.AddTo(cmd.Flags())
	flags.AddTargetsTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster, item, err := flags.Read(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if out := cmd.OutOrStdout(); output.Value != cli.FormatText {
			return newItemPrinter(out, output.Value, false).print([]v1alpha1.DeployItem{*item}, false)
		}
		return cli.PrintText(cmd.OutOrStdout(), inspect.Describe(evidenceOf(cmd.Context(), cluster, item)))
	}
	return cmd
}

// evidenceOf reads the details of an item.
func evidenceOf(ctx context.Context, c *usercluster.Cluster, item *v1alpha1.DeployItem) inspect.Evidence {
	e := inspect.Evidence{Item: item}
	_, e.TargetErr = c.Resolver().Target(ctx, item)
	locks, events := &v1alpha1.SyncObjectList{}, &eventsv1.EventList{}
	there, regarding := client.InNamespace(item.Namespace), client.MatchingFields{"regarding.uid": string(item.UID)}
	if err := c.List(ctx, locks, there); err != nil {
		e.Unread = fmt.Errorf("list locks: %w", err)
	}
	if err := c.List(ctx, events, there, regarding); err != nil {
		e.Unread = errors.Join(e.Unread, fmt.Errorf("list events: %w", err))
	}
	e.Locks, e.Events, e.Hosts, e.Now = locks.Items, events.Items, c.FindHosts(ctx), time.Now()
	return e
}
