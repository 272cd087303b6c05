package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// operator asks items for an operation.
type operator struct {
	operation string
	cluster   clusterFlags
	chosen    itemChoice
	wait      bool
	timeout   time.Duration
}

// request is what has become of asking an item.
type request struct {
	Name      string `json:"name"`
	Operation string `json:"operation"`
	// Next says what happens now; empty if the item was not asked. Refused says why it was not.
	Next    string `json:"next,omitempty"`
	Refused string `json:"refused,omitempty"`

	deleting bool
}

func newItemsTriggerCommand() *cobra.Command {
	return newOperationCommand(v1alpha1.OperationReconcile, &cobra.Command{
		Use:   "trigger (ITEM... | -l SELECTOR)",
		Short: "Have a new job for DeployItems, although nothing has changed",
		Long: `Have a new job for DeployItems, although nothing has changed. It begins when the one under way has ended.

Beside a Landscaper it is Landscaper that sets jobs: while the execution of an item is at work it would put its own job
in the place of this one, and the item is not asked.`,
		Example: `  pergola items trigger my-item --wait
  pergola items trigger -l app=shop`,
	})
}

func newItemsAbortCommand() *cobra.Command {
	return newOperationCommand(v1alpha1.OperationAbort, &cobra.Command{
		Use:   "abort (ITEM... | -l SELECTOR)",
		Short: "End the jobs of DeployItems that are under way",
		Long: `End the jobs of DeployItems that are under way. Each ends as Failed or DeleteFailed, with the reason Aborted, and what
it has deployed so far stays. A running call of the deployer is cancelled; one that can abort in its own way gets the
time for it.`,
		Example: `  pergola items abort my-item --wait`,
	})
}

func newItemsForceCommand() *cobra.Command {
	return newOperationCommand(v1alpha1.OperationForceReconcile, &cobra.Command{
		Use:   "force-reconcile (ITEM... | -l SELECTOR)",
		Short: "Have DeployItems reconciled by force",
		Long: `Have DeployItems reconciled by force, in the job under way or in a new one. What that is depends on the deployer: one
that knows no force does the same as usual. A deletion is not forced.`,
		Example: `  pergola items force-reconcile my-item --wait`,
	})
}

func newOperationCommand(operation string, cmd *cobra.Command) *cobra.Command {
	o := &operator{operation: operation}
	cmd.Long += `

The item is asked by the annotation ` + v1alpha1.OperationAnnotation + `, which disappears when a host has taken it
up. An item is not asked for something that makes no sense, and not as long as it is asked for something else.

The exit code is 0 if all are asked, 1 if one is not, with the reason, and 2 after an error. With --wait it is 1 also if
the job fails, and 3 if the time was over.`
	cmd.Args = o.chosen.check
	flags := cmd.Flags()
	output := addOutput(flags, formatYAML)
	o.cluster.addTo(flags)
	o.chosen.addTo(flags)
	flags.BoolVar(&o.wait, "wait", false, "wait for the end of the job")
	flags.DurationVar(&o.timeout, "timeout", 10*time.Minute, "how long to wait at most; 0 for as long as it takes")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		cluster, err := o.cluster.connect()
		if err != nil {
			return asItems(err)
		}
		requests, err := o.askAll(cmd, cluster, names)
		if printErr := printRequests(cmd.OutOrStdout(), output.format, requests); printErr != nil || err != nil {
			return asItems(errors.Join(err, printErr))
		}
		return o.finish(cmd, cluster, requests)
	}
	return cmd
}

// askAll asks the items, one after the other, until there is an error.
func (o *operator) askAll(cmd *cobra.Command, cluster *userCluster, names []string) ([]request, error) {
	ctx := cmd.Context()
	requests := []request{}
	if len(names) == 0 {
		options, err := o.chosen.options()
		if err != nil {
			return requests, err
		}
		list := &v1alpha1.DeployItemList{}
		if err := cluster.List(ctx, list, append(options, client.InNamespace(cluster.namespace))...); err != nil {
			return requests, fmt.Errorf("list DeployItems: %w", err)
		}
		for _, item := range list.Items {
			names = append(names, item.Name)
		}
		if len(names) == 0 {
			return requests, fmt.Errorf("no DeployItem in the namespace %q has the labels %q", cluster.namespace, o.chosen.selector)
		}
	}
	for _, name := range names {
		r, err := o.ask(ctx, cluster, name, cmd.ErrOrStderr())
		if err != nil {
			return requests, err
		}
		requests = append(requests, *r)
	}
	return requests, nil
}

// ask asks an item. An item that changes meanwhile is looked at again.
func (o *operator) ask(ctx context.Context, cluster *userCluster, name string, stderr io.Writer) (*request, error) {
	r := &request{Name: name, Operation: o.operation}
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		item, err := cluster.deployItem(ctx, name)
		if err != nil {
			return err
		}
		execution, err := cluster.executionOf(ctx, item)
		if err != nil {
			if err := printText(stderr, "warning: "+terminal.Printable(err.Error())+"\n"); err != nil {
				return err
			}
		}
		prospect := inspect.Ask(item, o.operation, execution, time.Now())
		r.Next, r.Refused, r.deleting = prospect.Next, prospect.Refusal, item.DeletionTimestamp != nil
		if prospect.Refusal != "" || prospect.Asked {
			return nil
		}
		before := item.DeepCopy()
		if item.Annotations == nil {
			item.Annotations = map[string]string{}
		}
		item.Annotations[v1alpha1.OperationAnnotation] = o.operation
		return cluster.Patch(ctx, item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	if err != nil {
		return nil, fmt.Errorf("ask DeployItem %q for %q: %w", cluster.namespace+"/"+name, o.operation, err)
	}
	return r, nil
}

// executionOf returns what sets the jobs of an item beside a Landscaper. The error says that nobody knows whether it is at work.
func (c *userCluster) executionOf(ctx context.Context, item *v1alpha1.DeployItem) (inspect.Execution, error) {
	for _, owner := range item.OwnerReferences {
		of := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		if of.Group != v1alpha1.GroupName || of.Kind != "Execution" {
			continue
		}
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(of)
		err := c.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: owner.Name}, object)
		if apierrors.IsNotFound(err) {
			return inspect.Execution{}, nil
		}
		if err != nil {
			return inspect.Execution{}, fmt.Errorf("whether the execution %q is at work, and would put its own job in the place of this one, is not known: %w", owner.Name, err)
		}
		set, _, _ := unstructured.NestedString(object.Object, "status", "jobID")
		finished, _, _ := unstructured.NestedString(object.Object, "status", "jobIDFinished")
		return inspect.Execution{Name: owner.Name, UnderWay: set != finished}, nil
	}
	return inspect.Execution{}, nil
}

// finish waits, if it is to, and returns the exit code.
func (o *operator) finish(cmd *cobra.Command, cluster *userCluster, requests []request) error {
	var refusals []error
	w := &waiter{progress: cmd.ErrOrStderr()}
	for _, r := range requests {
		switch {
		case r.Refused != "":
			refusals = append(refusals, fmt.Errorf("DeployItem %q is not asked for %q: %s", cluster.namespace+"/"+r.Name, o.operation, terminal.Printable(r.Refused)))
		case o.operation == v1alpha1.OperationAbort:
			w.await(r.Name, inspect.Ended)
		case r.deleting:
			w.await(r.Name, inspect.Deleted)
		default:
			w.await(r.Name, inspect.Succeeded)
		}
	}
	var err error
	if o.wait && len(w.items) > 0 {
		err = w.verdict(cluster.namespace, w.wait(cmd.Context(), cluster, o.timeout))
	}
	if len(refusals) == 0 {
		return err
	}
	code := exitNo
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		code = max(code, exit.code)
	}
	return &exitError{code: code, err: errors.Join(append(refusals, err)...)}
}

// printRequests prints what happens now. What was refused is an error, told elsewhere.
func printRequests(out io.Writer, as format, requests []request) error {
	document := struct {
		Items []request `json:"items"`
	}{requests}
	switch as {
	case formatJSON:
		return printJSON(out, document)
	case formatYAML:
		return printYAML(out, document)
	default:
		var text strings.Builder
		for _, r := range requests {
			if r.Refused == "" {
				text.WriteString(terminal.Printable(r.Name+": "+r.Next) + "\n")
			}
		}
		return printText(out, text.String())
	}
}
