package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

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
	chosen, wait := &itemChoice{}, false
	cmd.Long += `

The item is asked by the annotation ` + v1alpha1.OperationAnnotation + `, which disappears when a host has taken it
up. An item is not asked for something that makes no sense, and not as long as it is asked for something else.

The exit code is 0 if all are asked, 1 if one is not, with the reason, and 2 after an error. With --wait it is 1 also if
the job fails, and 3 if the time was over.`
	cmd.Args = chosen.check
	chosen.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of the job")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		w, names, err := chosen.find(cmd, names, false)
		if err != nil {
			return err
		}
		refusals, err := w.askAll(cmd.Context(), names, operation)
		if err == nil && wait && len(w.items) > 0 {
			err = w.wait(cmd.Context())
		}
		return concludeRequests(refusals, asItems(err))
	}
	return cmd
}

// concludeRequests puts together why items were not asked, and what has come of those that were.
func concludeRequests(refusals []error, err error) error {
	if len(refusals) == 0 {
		return err
	}
	code := exitNo
	if exit := (*exitError)(nil); errors.As(err, &exit) {
		code = max(code, exit.code)
	}
	return &exitError{code: code, err: errors.Join(append(refusals, err)...)}
}

// askAll asks items for an operation, one after the other, until there is an error, and says why some were not asked.
func (w *waiter) askAll(ctx context.Context, names []string, operation string) (refusals []error, err error) {
	for _, name := range names {
		item, refusal, err := w.ask(ctx, name, operation)
		if err != nil {
			return refusals, fmt.Errorf("ask DeployItem %q for %q: %w", w.namespace+"/"+name, operation, err)
		}
		if refusal != "" {
			refusals = append(refusals, fmt.Errorf("DeployItem %q is not asked for %q: %s",
				w.namespace+"/"+name, operation, inspect.Printable(refusal)))
			continue
		}
		goal := inspect.Succeeded
		switch {
		case operation == v1alpha1.OperationAbort:
			goal = inspect.Ended
		case item.DeletionTimestamp != nil:
			goal = inspect.Deleted
		}
		w.items = append(w.items, &awaited{name: name, goal: goal})
		if err := printText(w.stdout, inspect.Printable(name)+": asked for "+operation+"\n"); err != nil {
			return refusals, err
		}
	}
	return refusals, nil
}

// ask asks an item, unless that makes no sense. An item that changes meanwhile is read again.
func (w *waiter) ask(
	ctx context.Context, name, operation string,
) (item *v1alpha1.DeployItem, refusal string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if item, err = w.deployItem(ctx, name); err != nil {
			return err
		}
		execution, err := w.busyExecution(ctx, item)
		if err != nil {
			_ = printText(w.stderr, "warning: "+inspect.Printable(err.Error())+"\n") // asking does not depend on it
		}
		refusal = inspect.Refusal(item, operation, execution, time.Now())
		if refusal != "" || item.Annotations[v1alpha1.OperationAnnotation] == operation {
			return nil
		}
		before := item.DeepCopy()
		metav1.SetMetaDataAnnotation(&item.ObjectMeta, v1alpha1.OperationAnnotation, operation)
		return w.Patch(ctx, item, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	})
	return item, refusal, err
}

// busyExecution returns the name of the Execution that sets the jobs of an item, if it is at work; empty for none. The
// error says that nobody knows.
func (c *userCluster) busyExecution(ctx context.Context, item *v1alpha1.DeployItem) (string, error) {
	for _, owner := range item.OwnerReferences {
		kind := schema.FromAPIVersionAndKind(owner.APIVersion, owner.Kind)
		if kind.Group != v1alpha1.GroupName || kind.Kind != "Execution" {
			continue
		}
		execution := &unstructured.Unstructured{}
		execution.SetGroupVersionKind(kind)
		err := c.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: owner.Name}, execution)
		if client.IgnoreNotFound(err) != nil {
			return "", fmt.Errorf("whether the execution %q is at work, "+
				"and would put its own job in the place of this one, is not known: %w", owner.Name, err)
		}
		set, _, _ := unstructured.NestedString(execution.Object, "status", "jobID")
		finished, _, _ := unstructured.NestedString(execution.Object, "status", "jobIDFinished")
		if set != finished { // both are empty for one that is not there
			return owner.Name, nil
		}
	}
	return "", nil
}
