package items

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

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/usercluster"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func newTriggerCommand(version string) *cobra.Command {
	return newOperationCommand(version, v1alpha1.OperationReconcile, &cobra.Command{
		Use:   "trigger (ITEM... | -l SELECTOR)",
		Short: "Start a new job for DeployItems, even if nothing changed",
		Long: `Start a new job for DeployItems, even if nothing changed. It begins after the end of the running job.

Beside a Landscaper, Landscaper sets the jobs: while the execution of an item is at work, it would replace the new job,
and the request is refused.`,
		Example: `  pergola items trigger my-item --wait
  pergola items trigger -l app=shop`,
	})
}

func newAbortCommand(version string) *cobra.Command {
	return newOperationCommand(version, v1alpha1.OperationAbort, &cobra.Command{
		Use:   "abort (ITEM... | -l SELECTOR)",
		Short: "Abort the running jobs of DeployItems",
		Long: `Abort the running jobs of DeployItems. Each job ends as Failed or DeleteFailed, with the reason Aborted.
Deployed objects stay. A running call of the deployer is cancelled; a deployer with its own way to abort gets the time
for it.`,
		Example: `  pergola items abort my-item --wait`,
	})
}

func newForceCommand(version string) *cobra.Command {
	return newOperationCommand(version, v1alpha1.OperationForceReconcile, &cobra.Command{
		Use:   "force-reconcile (ITEM... | -l SELECTOR)",
		Short: "Force the reconciliation of DeployItems",
		Long: `Force the reconciliation of DeployItems, in the running job or a new job. The effect depends on the deployer;
without support for it, this is an ordinary reconcile. A deletion is not forced.`,
		Example: `  pergola items force-reconcile my-item --wait`,
	})
}

func newOperationCommand(version, operation string, cmd *cobra.Command) *cobra.Command {
	chosen, wait := newSelection(version), false
	cmd.Long += `

The request is the annotation ` + v1alpha1.OperationAnnotation + `; the host removes it when it accepts the request. A
request is refused if the state of the item does not allow it, or if the item has another request already.

The exit code is 0 if all requests are made, 1 if one is refused, with the reason, and 2 after an error. With --wait it
is 1 also for a failed job, and 3 after the timeout.`
	cmd.Args = chosen.check
	chosen.addTo(cmd.Flags())
	cmd.Flags().BoolVar(&wait, "wait", false, "wait for the end of the job")
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		w, keys, err := chosen.find(cmd, names, false)
		if err != nil {
			return err
		}
		refusals, err := w.askAll(cmd.Context(), keys, operation)
		if err == nil && wait && len(w.items) > 0 {
			err = w.wait(cmd.Context())
		}
		return joinRefusals(refusals, usercluster.WithCode(err))
	}
	return cmd
}

// joinRefusals joins refused requests and the error of the others, with the higher exit code.
func joinRefusals(refusals []error, err error) error {
	if len(refusals) == 0 {
		return err
	}
	code := cli.ExitNo
	if exit := (*cli.ExitError)(nil); errors.As(err, &exit) {
		code = max(code, exit.Code)
	}
	return &cli.ExitError{Code: code, Err: errors.Join(append(refusals, err)...)}
}

// askAll requests an operation of each item until the first error, and returns the refusals.
func (w *waiter) askAll(
	ctx context.Context, keys []client.ObjectKey, operation string,
) (refusals []error, err error) {
	for _, key := range keys {
		item, refusal, err := w.ask(ctx, key.Name, operation)
		if err != nil {
			return refusals, fmt.Errorf("ask DeployItem %q for %q: %w", key, operation, err)
		}
		if refusal != "" {
			refusals = append(refusals, fmt.Errorf("DeployItem %q is not asked for %q: %s",
				key, operation, text.Printable(refusal)))
			continue
		}
		goal := inspect.Succeeded
		switch {
		case operation == v1alpha1.OperationAbort:
			goal = inspect.Ended
		case item.DeletionTimestamp != nil:
			goal = inspect.Deleted
		}
		w.items = append(w.items, &awaited{key: key, goal: goal})
		if err := cli.PrintText(w.stdout, w.nameOf(key)+": asked for "+operation+"\n"); err != nil {
			return refusals, err
		}
	}
	return refusals, nil
}

// ask requests an operation of an item, or returns the reason for a refusal.
func (w *waiter) ask(
	ctx context.Context, name, operation string,
) (item *v1alpha1.DeployItem, refusal string, err error) {
	err = retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		if item, err = w.DeployItem(ctx, name); err != nil {
			return err
		}
		execution, err := busyExecution(ctx, w.Cluster, item)
		if err != nil {
			_ = cli.PrintText(w.stderr, "warning: "+text.Printable(err.Error())+"\n") // the request is made nevertheless
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

// busyExecution returns the name of the Execution of an item if it is at work; "" for none.
func busyExecution(ctx context.Context, c *usercluster.Cluster, item *v1alpha1.DeployItem) (string, error) {
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
				"and would replace the new job, is not known: %w", owner.Name, err)
		}
		set, _, _ := unstructured.NestedString(execution.Object, "status", "jobID")
		finished, _, _ := unstructured.NestedString(execution.Object, "status", "jobIDFinished")
		if set != finished { // both are empty for a missing Execution
			return owner.Name, nil
		}
	}
	return "", nil
}
