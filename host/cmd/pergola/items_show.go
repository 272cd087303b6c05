package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newItemsShowCommand() *cobra.Command {
	flags := &clusterFlags{}
	cmd := &cobra.Command{
		Use:     "show ITEM",
		Aliases: []string{"describe"},
		Short:   "Show everything that is known about a DeployItem",
		Long: `Show everything that is known about a DeployItem: its Target and whether it leads somewhere, its job, what it waits for,
its last error and what to do about it, where its exports are, conditions and events. Nothing of secrets is shown.

Whether the Target leads somewhere is tried with your own rights, as a host does it: you need "get" for it and its
secret, and "create" for serviceaccounts/token where it names a ServiceAccount.`,
		Example: `  pergola items show my-item -n my-namespace
  pergola items show my-item -o yaml`,
		Args: arguments(1),
	}
	output := addOutput(cmd.Flags(), formatYAML)
	flags.addTo(cmd.Flags())
	flags.addTargetsTo(cmd.Flags())
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		cluster, item, err := flags.read(cmd.Context(), args[0])
		if err != nil {
			return err
		}
		if out := cmd.OutOrStdout(); output.value != formatText {
			return newItemPrinter(out, output.value, false).print([]v1alpha1.DeployItem{*item}, false)
		}
		return printText(cmd.OutOrStdout(), inspect.Describe(cluster.evidenceOf(cmd.Context(), item)))
	}
	return cmd
}

// evidenceOf reads what there is about an item.
func (c *userCluster) evidenceOf(ctx context.Context, item *v1alpha1.DeployItem) inspect.Evidence {
	e := inspect.Evidence{Item: item, Now: time.Now()}
	_, e.TargetErr = c.resolver().Target(ctx, item)
	locks, events := &v1alpha1.SyncObjectList{}, &eventsv1.EventList{}
	there, regarding := client.InNamespace(item.Namespace), client.MatchingFields{"regarding.uid": string(item.UID)}
	if err := c.List(ctx, locks, there); err != nil {
		e.Unread = fmt.Errorf("list locks: %w", err)
	}
	if err := c.List(ctx, events, there, regarding); err != nil {
		e.Unread = errors.Join(e.Unread, fmt.Errorf("list events: %w", err))
	}
	e.Locks, e.Events = locks.Items, events.Items
	return e
}

// deployItem reads an item. The error is wrapped.
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

// noItemError says that there is no such item.
type noItemError struct {
	namespace, name string
}

func (e *noItemError) Error() string {
	return fmt.Sprintf("there is no DeployItem %q in the namespace %q; name another one, or a namespace with -n",
		e.name, e.namespace)
}
