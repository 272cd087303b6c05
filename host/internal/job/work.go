package job

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/tenure"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// work is one run of a job, as all phases have it.
type work struct {
	*Runner
	key types.NamespacedName
	// decision is that of the job while it runs: Continue instead of Start and PickUp.
	decision contract.Decision
	hooks    Hooks
	tenure   *tenure.Tenure
	result   *Result
	log      *slog.Logger
	// before is the status before the job if the item was deployed as in its spec; nil otherwise.
	before *v1alpha1.DeployItemStatus
	// moving is the state of the item's move for the call of this run.
	moving move.State
}

func (r *Runner) newWork(task Task) *work {
	decision := task.Decision
	if decision.Action == contract.Start || decision.Action == contract.PickUp {
		decision.Action, decision.JobID, decision.ByHook = contract.Continue, "", false
	}
	return &work{
		Runner: r, key: client.ObjectKeyFromObject(task.Item), decision: decision, hooks: task.Hooks,
		result: &Result{Progress: task.Progress}, moving: move.Of(task.Item),
		tenure: tenure.New(r.Items, task.Item, decision, r.Clock.Now, r.UnknownOperation), log: r.logOf(task.Item),
	}
}

func (r *Runner) logOf(item *v1alpha1.DeployItem) *slog.Logger {
	return r.Log.With("deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID)
}

// operation is the operation of the plugin. One without ForceReconcile reconciles as usual.
func (w *work) operation() plugin.Operation {
	switch {
	case w.decision.Action == contract.Abort:
		return plugin.Abort
	case w.decision.Deletion, w.moving.Removes():
		return plugin.Delete
	case w.decision.Force && w.Plugin.Info().Capabilities.ForceReconcile:
		return plugin.ForceReconcile
	default:
		return plugin.Reconcile
	}
}

// deploys reports whether the plugin is called to deploy something.
func (w *work) deploys() bool {
	operation := w.operation()
	return operation == plugin.Reconcile || operation == plugin.ForceReconcile
}

// hasFinalizer reports whether the item has Landscaper's finalizer, and so may have reached a deployer.
func (w *work) hasFinalizer() bool {
	return controllerutil.ContainsFinalizer(w.tenure.View(), v1alpha1.Finalizer)
}

func (w *work) lockKey() lock.Key {
	return lock.Key{Plugin: w.Plugin.Name(), UID: w.tenure.View().UID, Item: w.key}
}

// acquireLock acquires the item's lock.
func (w *work) acquireLock(ctx context.Context) (err error) {
	key := w.lockKey()
	end := func(string) {}
	if _, off := w.Locks.(lock.Off); !off && !w.Locks.Holds(key) { // else there is no request
		ctx, end = telemetry.Begin(ctx, telemetry.Work{Of: telemetry.KindLock})
	}
	w.tenure.Lock, err = w.Locks.Acquire(ctx, key)
	switch {
	case err == nil:
		end(telemetry.ResultDone)
	case errors.Is(err, lock.ErrHeld):
		end(telemetry.ResultConflict)
	default:
		end(telemetry.ResultError)
	}
	return err
}

func (w *work) deployer() v1alpha1.DeployerInformation {
	info := w.Plugin.Info()
	return v1alpha1.DeployerInformation{Identity: w.Identity, Name: info.Name, Version: info.Version}
}

func (w *work) event(eventType, reason, message string) {
	w.Events.Record(w.tenure.View(), eventType, reason, message)
}

// runAfter sets the time of the next run; see contract.PollInterval.
func (w *work) runAfter(wish time.Duration) {
	now := w.Clock.Now()
	w.result.Due = now.Add(contract.PollInterval(w.tenure.View(), wish, now))
}

// beforeType is the type of the plugin hooks before the job's operation.
func (w *work) beforeType() sdkhook.Type {
	switch {
	case w.decision.Action == contract.Abort:
		return sdkhook.BeforeAbort
	case w.decision.Deletion:
		return sdkhook.BeforeDelete
	case w.decision.Force:
		return sdkhook.BeforeForceReconcile
	default:
		return sdkhook.BeforeReconcile
	}
}
