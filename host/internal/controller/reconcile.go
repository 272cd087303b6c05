package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/exports"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// conflictPause is the pause before an item is read again after a conflict.
const conflictPause = 50 * time.Millisecond

// reconciler reconciles the deploy items of one plugin.
type reconciler struct {
	name    string // of the plugin
	plugin  deployer
	options Options

	cache    client.Reader // slim deploy items, Targets, Contexts
	items    *itemclient.Client
	exports  *exports.Writer
	targets  *target.Resolver
	plugins  plugins
	router   *router
	memory   *memory
	contents *contents
	slots    *slots.Slots
	locks    locks
	recorder *itemevents.Recorder
	clock    clock.WithTicker
	random   func() float64
	newJobID func() string
	log      *slog.Logger
}

var _ reconcile.Reconciler = (*reconciler)(nil)

// Reconcile does what is to be done with a DeployItem now. The comments here, in reconcile and in package job are the
// steps of "The way of a DeployItem" in docs/architecture.md. Only the lock of a job that goes on outlasts a reconcile.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, over := r.options.Observed.StartReconcile(ctx, telemetry.Job{Plugin: r.name, Item: req.NamespacedName})
	defer over()
	// 1. An event comes to the queue of the plugin that serves the item.
	slotReserved := r.slots.IsReserved(req.NamespacedName)
	defer func() { r.router.slotsReserved(r.name, r.slots.EndReconcile(req.NamespacedName, slotReserved)) }()
	result, err := r.reconcile(ctx, req, slotReserved)
	if errors.Is(err, job.ErrAbandoned) {
		return reconcile.Result{}, nil // the lock stays until the plugin has ended
	}
	// 15. The lock is released, unless the job goes on.
	if !r.unlock(ctx, req.NamespacedName) && err == nil {
		result.RequeueAfter = unlockRetry
	}
	return result, err
}

func (r *reconciler) reconcile(
	ctx context.Context, req reconcile.Request, slotReserved bool,
) (reconcile.Result, error) {
	// 2. The cache says which Target the item has, and so whether this host may be responsible for it.
	cached, hooks, err := r.cached(ctx, req)
	if cached == nil || err != nil {
		return reconcile.Result{}, err
	}

	// 3. An item that is idle, not due, or left to another replica is not read.
	known := r.memory.recall(req.NamespacedName, cached.UID)
	if wait, skip := r.skip(cached, known, slotReserved, hooks); skip {
		return wait, nil
	}

	// 4. The item is read in full, unless it has arrived or is known, and contract.Decide decides what to do with it.
	full, err := r.inFull(ctx, cached, known)
	if err != nil {
		return r.afterError(ctx, req, nil, err)
	} else if full.item == nil {
		return reconcile.Result{}, nil
	}
	item := full.item
	if item.UID != cached.UID {
		known = entry{}
	}
	decision := r.decide(item)
	if r.clock.Now().Before(known.hooks.paused) && !decision.EndsJob() {
		return r.until(r.orDeadline(item, known.hooks.paused)), nil
	}

	// 5. Hooks run before and around the check of responsibility.
	run, err := r.newHookRun(ctx, hooks.About(item), item, decision)
	if err != nil {
		return r.afterError(ctx, req, nil, err)
	}
	if goesOn, err := run.goesOn(ctx); err != nil {
		return r.afterHookError(ctx, req, item, err)
	} else if !goesOn {
		return run.end(), nil
	}

	// 6. An operation that a user requests by annotation is accepted.
	if !full.own {
		r.reportUnknownOperation(item)
	}
	if decision, err = r.accept(ctx, item, decision); err != nil {
		return r.afterError(ctx, req, nil, err)
	}
	if decision.Action == contract.Restart { // something is still missing; when it comes there is an event
		r.forget(req.NamespacedName, false)
		return reconcile.Result{}, nil
	}

	// 7. ShouldReconcile hooks may request a job for an idle item.
	if decision, err = run.shouldReconcile(ctx, &known.hooks, decision); err != nil {
		return r.afterHookError(ctx, req, item, err)
	}
	if decision.Action == contract.Nothing {
		known.hooks.asked, known.hooks.again = hooks.Asking(), run.again(known.hooks.again)
		r.memory.idle(item, known.hooks)
		return r.until(known.hooks.again), nil
	}

	// 8 to 15. The job goes one step on.
	j, err := r.runJob(ctx, item, r.memory.begin(item, known, r.name), decision, run)
	if err != nil {
		return r.afterError(ctx, req, j.item, err)
	}
	return r.afterRun(req, j), nil
}

// cached returns an item as the cache has it, and the hooks of its type; nil for an item that this host cannot be
// responsible for. The item must not be changed.
func (r *reconciler) cached(ctx context.Context, req reconcile.Request) (*v1alpha1.DeployItem, pluginhook.Set, error) {
	item := &v1alpha1.DeployItem{}
	if err := r.cache.Get(ctx, req.NamespacedName, item, client.UnsafeDisableDeepCopy); err != nil {
		r.forget(req.NamespacedName, apierrors.IsNotFound(err))
		return nil, pluginhook.Set{}, client.IgnoreNotFound(err)
	}
	if !r.serves(item.Spec.Type) {
		r.forget(req.NamespacedName, false)
		return nil, pluginhook.Set{}, nil
	}
	hooks := r.hooksFor(item.Spec.Type)
	if ours, err := r.mayBeOurs(ctx, item); err != nil || !ours && !hooks.Has(sdkhook.DuringResponsibilityCheck) {
		r.forget(req.NamespacedName, false)
		return nil, pluginhook.Set{}, err
	}
	return item, hooks, nil
}

// inFull returns an item in full: as it has arrived or was written here, or else read. It has no item if that is gone
// or turns out to have another type. An error is that of the read, or lock.ErrHeld or errOutdated.
func (r *reconciler) inFull(ctx context.Context, cached *v1alpha1.DeployItem, known entry) (content, error) {
	key, version := keyOf(cached), cached.ResourceVersion
	if known.knows(version) {
		version = known.version
	}
	full, ok := r.contents.take(key, cached.UID, version)
	if !ok || known.outdated {
		item, err := r.items.Read(ctx, key)
		if err != nil {
			r.forget(key, apierrors.IsNotFound(err))
			if apierrors.IsNotFound(err) {
				return content{}, nil
			}
			return content{}, fmt.Errorf("read deploy item: %w", err)
		}
		full = content{item: item}
	}
	if !r.serves(full.item.Spec.Type) { // it was created anew, and there is an event
		r.forget(key, false)
		return content{}, nil
	}
	if full.own {
		return full, nil
	}
	return full, r.verifyHeld(ctx, full.item)
}

func (r *reconciler) decide(item *v1alpha1.DeployItem) contract.Decision {
	return decide(item, r.options.Standalone, r.clock.Now())
}

// decide is contract.Decide. Without a Landscaper, which sets the jobs otherwise, each job that has failed because
// something was missing is to be restarted, and not only a deletion.
func decide(item *v1alpha1.DeployItem, standalone bool, now time.Time) contract.Decision {
	decision := contract.Decide(item, now)
	if decision.Action == contract.Nothing && standalone && contract.FailedForMissingReference(item) {
		decision.Action = contract.Restart
	}
	return decision
}

// accept accepts the operation that is requested, if there is one, and returns what to do then. It returns Restart only
// if something that the item refers to is still missing.
func (r *reconciler) accept(
	ctx context.Context, item *v1alpha1.DeployItem, decision contract.Decision,
) (contract.Decision, error) {
	if decision.Action == contract.Accept {
		if err := r.acceptOperation(ctx, item); err != nil {
			return decision, err
		}
		decision = r.decide(item)
	}
	if decision.Action != contract.Restart {
		return decision, nil
	}
	there, err := r.referencesThere(ctx, item)
	if there { // the new job does what the last one was to do, and for the same requester
		decision.Action, decision.ByHook = contract.Start, sdkhook.AskedFor(item)
	}
	return decision, err
}

// reportUnknownOperation reports to the user that an item requests an operation that does not exist. One replica does
// so: the one that holds the item's lock, or is preferred for it.
func (r *reconciler) reportUnknownOperation(item *v1alpha1.DeployItem) {
	unknown, key := contract.UnknownOperation(item), r.lockKey(item)
	if unknown == "" || r.locks.Rank(key) > 0 && !r.locks.Holds(key) {
		return
	}
	r.recorder.Record(item, corev1.EventTypeWarning, "UnknownOperation", fmt.Sprintf(
		"the annotation %s asks for %q, which is left alone: expected %s, %s, %s or %s",
		v1alpha1.OperationAnnotation, unknown, v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile,
		v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort))
}

// acceptOperation replaces the annotation that requests an operation with the note of it, in one write.
func (r *reconciler) acceptOperation(ctx context.Context, item *v1alpha1.DeployItem) error {
	if _, err := r.locks.Acquire(ctx, r.lockKey(item)); err != nil {
		return err
	}
	var operation string
	var effective bool
	err := r.items.UpdateMetadata(ctx, item, func(item *v1alpha1.DeployItem) {
		operation, effective = contract.AcceptOperation(item, r.newJobID(), r.options.AbortTimeout, r.clock.Now())
	})
	if err != nil {
		return fmt.Errorf("accept operation: %w", err)
	}
	message := fmt.Sprintf("the operation %q begins", operation)
	if !effective {
		message = fmt.Sprintf("there is nothing to do for the operation %q: no job is under way", operation)
	}
	r.log.Info("accepted operation", "deployitem", item.Namespace+"/"+item.Name,
		"operation", operation, "effective", effective)
	r.recorder.Record(item, corev1.EventTypeNormal, "OperationAccepted", message)
	return nil
}

// afterError returns when to reconcile an item again after an error. item is the item as its job has left it; nil for an
// error before the job.
func (r *reconciler) afterError(
	ctx context.Context, req reconcile.Request, item *v1alpha1.DeployItem, err error,
) (reconcile.Result, error) {
	switch {
	case errors.Is(err, lock.ErrHeld):
		// There is an event when the lock is free.
		r.forget(req.NamespacedName, false)
		return pollAfter(heldPoll), nil
	case errors.Is(err, itemclient.ErrOutdated):
		r.memory.outdated(req.NamespacedName, item)
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
		r.memory.outdated(req.NamespacedName, item)
		return reconcile.Result{}, err
	}
}

// afterRun remembers an item after a run of its job, and returns when to reconcile the item again.
func (r *reconciler) afterRun(req reconcile.Request, j *jobRun) reconcile.Result {
	switch {
	case j.gone:
		r.forget(req.NamespacedName, true)
		// Older events may come.
		r.memory.idle(j.item, hookMemory{})
		return reconcile.Result{}
	case contract.Finished(j.item) && r.decide(j.item).Action == contract.Nothing:
		return r.afterJob(j)
	case contract.Finished(j.item):
		// More is requested.
		r.forget(req.NamespacedName, false)
		return reconcile.Result{RequeueAfter: conflictPause}
	}
	if again := j.hooks.again(j.known.hooks.again); !again.IsZero() {
		j.known.due = earlier(j.known.due, again)
	}
	r.contents.put(j.item, true)
	due := r.memory.requeue(j.item, j.known, r.clock.Now())
	if r.plugins.Running()[j.known.waitsFor] {
		// The plugin has started before the memory had that the job waits for it.
		j.known.due = earlier(j.known.due, r.clock.Now().Add(joberror.FirstRetry))
		due = r.memory.requeue(j.item, j.known, r.clock.Now())
	}
	return pollAfter(max(due.Sub(r.clock.Now()), time.Millisecond))
}

// reportUnwritable reports in an event that the API server has refused a write of the item: the status cannot say so.
func (r *reconciler) reportUnwritable(item *v1alpha1.DeployItem, err error) {
	var answer apierrors.APIStatus
	passing := apierrors.IsServerTimeout(err) || apierrors.IsTimeout(err) || apierrors.IsServiceUnavailable(err) ||
		apierrors.IsTooManyRequests(err)
	if !errors.As(err, &answer) || passing {
		return
	}
	r.recorder.Record(item, corev1.EventTypeWarning, "DeployItemNotWritable", err.Error()+"; it is tried again")
}

// afterJob remembers an item whose job has just ended, and returns when to reconcile it again. ShouldReconcile hooks
// run at once, in another reconcile.
func (r *reconciler) afterJob(j *jobRun) reconcile.Result {
	j.known.hooks.again = j.hooks.again(j.known.hooks.again)
	hooks := r.hooksFor(j.item.Spec.Type)
	if hooks.About(j.item).Has(sdkhook.ShouldReconcile) {
		r.contents.put(j.item, true)
		r.memory.finished(j.item, j.known.hooks)
		return pollAfter(time.Millisecond)
	}
	j.known.hooks.asked = hooks.Asking()
	r.memory.idle(j.item, j.known.hooks)
	return r.until(j.known.hooks.again)
}

func pollAfter(wait time.Duration) reconcile.Result {
	priority := priorityPoll
	return reconcile.Result{RequeueAfter: wait, Priority: &priority}
}

// serves reports whether this reconciler's plugin serves a type.
func (r *reconciler) serves(itemType v1alpha1.DeployItemType) bool {
	p := r.plugins.For(itemType)
	return p != nil && p.Name() == r.name
}

// verifyHeld checks that a lock which is held here was not taken over before the item was read or arrived: the new
// holder may have written what was read. The error is lock.ErrHeld, or errOutdated if the lock was lost.
func (r *reconciler) verifyHeld(ctx context.Context, item *v1alpha1.DeployItem) error {
	key := r.lockKey(item)
	if !r.locks.Holds(key) {
		return nil
	}
	held, err := r.locks.Acquire(ctx, key)
	if err != nil {
		return err
	}
	if err = held.Verify(ctx); errors.Is(err, lock.ErrLost) {
		return itemclient.ErrOutdated
	}
	return err
}
