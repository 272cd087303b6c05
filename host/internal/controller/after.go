package controller

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

const reasonNotWritable = "DeployItemNotWritable"

const (
	// conflictPause is the pause before an item is read again after a conflict.
	conflictPause = 50 * time.Millisecond
	// crashPause is the pause of an item after repeated crashes of a plugin during its hooks: others need the plugin.
	crashPause = 10 * time.Minute
)

// afterError returns the time of the next reconcile after an error; none for no error. item is the item as its job has
// left it; nil for an error before the job.
func (r *reconciler) afterError(
	ctx context.Context, req reconcile.Request, item *v1alpha1.DeployItem, err error,
) (reconcile.Result, error) {
	switch {
	case err == nil:
		return reconcile.Result{}, nil
	case errors.Is(err, lock.ErrHeld):
		// There is an event when the lock is free.
		r.forget(req.NamespacedName, false)
		return pollAfter(lockPoll), nil
	case errors.Is(err, itemclient.ErrOutdated):
		r.memory.SetOutdated(req.NamespacedName, item)
		return reconcile.Result{RequeueAfter: conflictPause}, nil
	case errors.Is(err, job.ErrAbandoned):
		return reconcile.Result{}, err
	case ctx.Err() != nil:
		// The host is shutting down. Another replica goes on from the status.
		r.forget(req.NamespacedName, false)
		return reconcile.Result{}, nil //nolint:nilerr // the error is the shutdown, or caused by it
	default:
		if item != nil {
			r.reportUnwritable(item, err)
		}
		r.memory.SetOutdated(req.NamespacedName, item)
		return reconcile.Result{}, err
	}
}

// reportUnwritable reports a refused write of the item in an event: the status cannot have it.
func (r *reconciler) reportUnwritable(item *v1alpha1.DeployItem, err error) {
	var answer apierrors.APIStatus
	passing := apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err)
	if !errors.As(err, &answer) || passing {
		return
	}
	r.recorder.Record(item, corev1.EventTypeWarning, reasonNotWritable, err.Error()+"; it is tried again")
}

// afterHookError returns the time of the next reconcile after the error of a hook before the job.
func (r *reconciler) afterHookError(
	ctx context.Context, req reconcile.Request, item *v1alpha1.DeployItem, err error,
) (reconcile.Result, error) {
	r.hooks.reportError(item, err)
	crashed := errors.Is(err, plugin.ErrCrashed)
	if !crashed && !errors.Is(err, plugin.ErrNotRunning) {
		return r.afterError(ctx, req, nil, err)
	}
	var e contract.Error
	errors.As(err, &e)
	missed := r.memory.HookMissed(item, r.name, e.Plugin)
	if crashed && r.memory.HookCrashed(item, r.options.MaxCrashes, r.clock.Now().Add(crashPause)) {
		r.recorder.Record(item, corev1.EventTypeWarning, contract.ReasonPluginCrashed, fmt.Sprintf(
			"a plugin has ended in the middle of a hook for this deploy item again and again; it is left alone for %s: %s",
			crashPause, err))
		return r.until(r.orDeadline(item, r.clock.Now().Add(crashPause))), nil
	}
	// There is an event when the plugin runs, unless it does already.
	return r.until(r.orDeadline(item, r.clock.Now().Add(joberror.RetryPause(missed, r.random())))), nil
}

// endedByHooks forgets an item of another host, or with a job held up by hooks, and returns the time of its next
// reconcile.
func (r *reconciler) endedByHooks(item *v1alpha1.DeployItem, run *hookRun) reconcile.Result {
	r.forget(client.ObjectKeyFromObject(item), false)
	return r.until(r.orDeadline(item, run.again(time.Time{})))
}

// afterNothing remembers an item with nothing to do, and returns the time of its next hooks. hooks are the hooks of
// this reconcile, and not later ones.
func (r *reconciler) afterNothing(
	item *v1alpha1.DeployItem, hooks pluginhook.Set, known itemstate.Hooks, run *hookRun,
) reconcile.Result {
	known.Asked, known.Again = hooks.Asking(), run.again(known.Again)
	r.wokenAtEnd(item, r.memory.SetIdle(item, known))
	return r.until(known.Again)
}

// afterRun remembers an item after a run of its job, and returns the time of the next reconcile.
func (r *reconciler) afterRun(
	req reconcile.Request, result job.Result, known itemstate.Entry, run *hookRun,
) reconcile.Result {
	item := result.Item
	switch {
	case result.Gone:
		r.forget(req.NamespacedName, true)
		// Older events may come.
		r.memory.SetIdle(item, itemstate.Hooks{})
		return reconcile.Result{}
	case contract.Finished(item) && r.rules.Decide(item).Action == contract.Nothing:
		return r.afterJob(item, known.Hooks, run)
	case contract.Finished(item):
		// More is requested.
		r.forget(req.NamespacedName, false)
		return reconcile.Result{RequeueAfter: conflictPause}
	}
	if again := run.again(known.Hooks.Again); !again.IsZero() {
		known.Due = earlier(known.Due, again)
	}
	r.contents.Put(itemstate.Content{Item: item, Own: true})
	due := r.memory.Requeue(item, known, r.clock.Now())
	if r.plugins.Running()[known.WaitsFor] {
		// The plugin has started before the memory knew about the waiting job.
		known.Due = earlier(known.Due, r.clock.Now().Add(joberror.FirstRetry))
		due = r.memory.Requeue(item, known, r.clock.Now())
	}
	return pollAfter(max(due.Sub(r.clock.Now()), time.Millisecond))
}

// afterJob remembers an item after the end of its job, and returns the time of the next reconcile.
func (r *reconciler) afterJob(item *v1alpha1.DeployItem, known itemstate.Hooks, run *hookRun) reconcile.Result {
	hooks := r.hooksFor(item.Spec.Type)
	if !hooks.About(item).Has(sdkhook.ShouldReconcile) {
		return r.afterNothing(item, hooks, known, run)
	}
	// They run at once, in another reconcile.
	known.Again = run.again(known.Again)
	r.contents.Put(itemstate.Content{Item: item, Own: true})
	r.wokenAtEnd(item, r.memory.SetEnded(item, known))
	return pollAfter(time.Millisecond)
}

// wokenAtEnd passes on a wake-up that has come during the last run of a job: it may be about what is deployed.
func (r *reconciler) wokenAtEnd(item *v1alpha1.DeployItem, woken bool) {
	if woken && r.router.Woken != nil {
		r.router.Woken(client.ObjectKeyFromObject(item))
	}
}

// orDeadline returns a time, or the deadline of a running job if that is earlier and has not passed. After the deadline
// the job is left to other hosts, or to hooks.
func (r *reconciler) orDeadline(item *v1alpha1.DeployItem, again time.Time) time.Time {
	deadline, err := contract.Deadline(item)
	if err == nil && contract.IsUnderWay(item) && deadline.After(r.clock.Now()) {
		return earlier(again, deadline)
	}
	return again
}

// until is the Result for a reconcile at a time; none for the zero time.
func (r *reconciler) until(again time.Time) reconcile.Result {
	if again.IsZero() {
		return reconcile.Result{}
	}
	return pollAfter(max(again.Sub(r.clock.Now()), time.Millisecond))
}

func pollAfter(wait time.Duration) reconcile.Result {
	priority := intake.PriorityPoll
	return reconcile.Result{RequeueAfter: wait, Priority: &priority}
}
