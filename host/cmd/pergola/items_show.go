package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newItemsShowCommand() *cobra.Command {
	cluster := &clusterFlags{}
	cmd := &cobra.Command{
		Use:     "show ITEM",
		Aliases: []string{"describe"},
		Short:   "Show everything that is known about a DeployItem",
		Long: `Show everything that is known about a DeployItem: its Target and whether it leads somewhere, its job, what it waits for,
how much time is left, its errors and what to do about them, who is responsible and who holds its lock, what it has
deployed and exported, its HTTP hooks, conditions and events.

Of secrets nothing is shown, of exports the names of their keys. Whether the Target leads somewhere is tried with your
own rights, as a host does it: you need "get" for it and its secret, and "create" for serviceaccounts/token where it
names a ServiceAccount. What you may not read is named at the end.`,
		Example: `  pergola items show my-item -n my-namespace
  pergola items show my-item -o json`,
		Args: arguments(1, 1),
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	colour := addColour(flags)
	cluster.addTo(flags)
	cluster.addTargetsTo(flags)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		evidence, err := showItem(cmd.Context(), cluster, args[0])
		if err != nil {
			return asItems(err)
		}
		account := inspect.NewAccount(*evidence)
		out := cmd.OutOrStdout()
		switch output.format {
		case formatJSON:
			return asItems(printJSON(out, account))
		case formatYAML:
			return asItems(printYAML(out, account))
		default:
			return asItems(printText(out, account.Text(colour.Palette(out), cmd.Root().DisplayName(), evidence.Now)))
		}
	}
	return cmd
}

// showItem reads what there is about an item. Only that the item itself cannot be read is an error.
func showItem(ctx context.Context, flags *clusterFlags, name string) (*inspect.Evidence, error) {
	cluster, err := flags.connect()
	if err != nil {
		return nil, err
	}
	item, err := cluster.deployItem(ctx, name)
	if err != nil {
		return nil, err
	}
	e := &inspect.Evidence{Item: item, Now: time.Now()}
	e.Target, e.TargetErr = cluster.resolver().Target(ctx, item)
	if ref := item.Status.ExportReference; ref != nil {
		secret := &corev1.Secret{}
		if e.ExportsErr = cluster.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: ref.Name}, secret); e.ExportsErr == nil {
			e.Exports = secret
		}
	}
	locks := &v1alpha1.SyncObjectList{}
	e.LocksErr = cluster.List(ctx, locks, client.InNamespace(item.Namespace))
	e.Locks = locks.Items
	registrations := &v1alpha1.DeployerRegistrationList{}
	e.RegistrationsErr = cluster.List(ctx, registrations)
	e.Registrations = registrations.Items
	e.Events, e.EventsErr = cluster.eventsOf(ctx, item)
	return e, nil
}

// eventsOf reads the events of an item.
func (c *userCluster) eventsOf(ctx context.Context, item *v1alpha1.DeployItem) ([]eventsv1.Event, error) {
	list := &eventsv1.EventList{}
	if err := c.List(ctx, list, client.InNamespace(item.Namespace), client.MatchingFields{"regarding.uid": string(item.UID)}); err != nil {
		return nil, fmt.Errorf("list events: %w", err)
	}
	return list.Items, nil
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
	return fmt.Sprintf("there is no DeployItem %q in the namespace %q; name another one, or a namespace with -n", e.name, e.namespace)
}
