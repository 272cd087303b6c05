package main

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/podexec"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// tracer finds out what has happened in a job.
type tracer struct {
	cluster  clusterFlags
	host     hostFinder
	place    podexec.Place
	replicas bool
	jobID    string
}

func newItemsTraceCommand() *cobra.Command {
	t := &tracer{}
	cmd := &cobra.Command{
		Use:   "trace ITEM",
		Short: "Show what has happened in a job of a DeployItem, and how long it took",
		Long: `Show what has happened in a job of a DeployItem, and how long it took: when it was set, picked up and ended, its lock,
the calls of the deployer, what it waited for, its errors and events.

What the objects of the cluster tell is in whole seconds. The details are in the memory of the replica that had to do
with the job: that of a host on this machine is asked, or with --replicas those of all replicas, by this program that is
run in their pods. A replica remembers its last jobs, until it ends. --replicas is for operators: it needs "create" for
pods/exec in the namespace of the host, which is all rights of the host.`,
		Example: `  pergola items trace my-item -n my-namespace --replicas
  pergola items trace my-item --job 7c0a5f6e-6b0c-4bb0-a1f5-4cf2a3c5c6d7`,
		Args: arguments(1, 1),
	}
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	t.cluster.addTo(flags)
	t.host.addTo(flags)
	flags.BoolVar(&t.replicas, "replicas", false, "for operators: ask all replicas that run in the cluster")
	flags.StringVar(&t.place.Namespace, "host-namespace", usualNamespace, "namespace of the replicas")
	flags.StringVar(&t.place.Selector, "host-selector", usualSelector, "labels of the pods of the replicas")
	flags.StringVar(&t.place.Container, "host-container", usualContainer, "container of the pods that the host runs in")
	flags.StringVar(&t.jobID, "job", "", "ID of the job; without it the one that is under way, or the last one")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		trace, err := t.trace(cmd.Context(), args[0])
		if err != nil {
			return asItems(err)
		}
		out := cmd.OutOrStdout()
		switch output.format {
		case formatJSON:
			return asItems(printJSON(out, trace))
		case formatYAML:
			return asItems(printYAML(out, trace))
		default:
			return asItems(printText(out, trace.Text()))
		}
	}
	return cmd
}

func (t *tracer) trace(ctx context.Context, name string) (*inspect.Trace, error) {
	cluster, err := t.cluster.connect()
	if err != nil {
		return nil, err
	}
	item, err := cluster.deployItem(ctx, name)
	if err != nil {
		return nil, err
	}
	e := inspect.Evidence{Item: item, Now: time.Now()}
	locks := &v1alpha1.SyncObjectList{}
	e.LocksErr = cluster.List(ctx, locks, client.InNamespace(item.Namespace))
	e.Locks = locks.Items
	e.Events, e.EventsErr = cluster.eventsOf(ctx, item)
	if t.replicas {
		memories, err := t.askReplicas(ctx, cluster, item)
		return inspect.NewTrace(e, t.jobID, memories), err
	}
	return inspect.NewTrace(e, t.jobID, t.askHost(ctx, item)), nil
}

// askHost asks the host on this machine; nobody, if there is none, as on the machine of a user.
func (t *tracer) askHost(ctx context.Context, item *v1alpha1.DeployItem) []inspect.Recollection {
	const here = "host"
	found, err := t.host.find(ctx)
	if none := (*noHostError)(nil); errors.As(err, &none) {
		return nil
	}
	if err != nil {
		return []inspect.Recollection{{Replica: here, Err: err}}
	}
	jobs, err := found.Jobs(ctx, item.Namespace, item.Name)
	if err != nil {
		return []inspect.Recollection{{Replica: here, Err: err}}
	}
	return []inspect.Recollection{{Replica: here, Jobs: jobs.Jobs}}
}

// askReplicas asks all replicas.
func (t *tracer) askReplicas(ctx context.Context, cluster *userCluster, item *v1alpha1.DeployItem) ([]inspect.Recollection, error) {
	answers, err := podexec.Ask(ctx, cluster.config, t.place, ownName, "items", "journal", item.Name, "-n", item.Namespace, "-o", "json")
	if err != nil {
		return nil, err
	}
	memories := make([]inspect.Recollection, 0, len(answers))
	for _, answer := range answers {
		list := &control.JobList{}
		memory := inspect.Recollection{Replica: answer.Pod, Err: answer.Err}
		if memory.Err == nil {
			memory.Err = json.Unmarshal(answer.Stdout, list)
			memory.Jobs = list.Jobs
		}
		memories = append(memories, memory)
	}
	return memories, nil
}
