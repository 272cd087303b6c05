package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// outdatedPause lets the write settle that ours met before the item is read again.
const outdatedPause = 50 * time.Millisecond

// reconciler carries out the deploy items of one plugin.
type reconciler struct {
	name    string // of the plugin
	plugin  deployer
	options Options

	cache    client.Reader // metadata of deploy items, Targets, Contexts
	live     client.Reader
	writer   *writer
	exports  *exporter
	targets  *target.Resolver
	plugins  plugins
	router   *router
	memory   *memory
	slots    *slots
	locks    locks
	recorder events.EventRecorder
	clock    clock.WithTicker
	random   func() float64
	newJobID func() string
	log      *slog.Logger
}

var _ reconcile.Reconciler = (*reconciler)(nil)

// Reconcile does what is to be done with a DeployItem now. Its slot and its lock outlast no reconcile but that of a
// job which goes on. The steps here, in reconcile and in job.run are those of "The way of a DeployItem" in
// docs/architecture.md.
func (r *reconciler) Reconcile(ctx context.Context, req reconcile.Request) (reconcile.Result, error) {
	ctx, over := r.options.Observed.StartReconcile(ctx, telemetry.Job{Plugin: r.name, Item: req.NamespacedName})
	defer over()
	// 1. An event comes to the queue of the plugin that serves the item.
	slotKept := r.slots.hasSlot(req.NamespacedName)
	defer func() { r.router.slotsKept(r.name, r.slots.reconciled(req.NamespacedName, slotKept)) }()
	result, err := r.reconcile(ctx, req, slotKept)
	if errors.Is(err, errAbandoned) {
		return reconcile.Result{}, nil // the lock stays until the plugin has ended
	}
	// 15. The lock is given back, unless the job goes on.
	if !r.unlock(ctx, req.NamespacedName) && err == nil {
		result.RequeueAfter = unlockRetry
	}
	return result, err
}

func (r *reconciler) reconcile(ctx context.Context, req reconcile.Request, slotKept bool) (reconcile.Result, error) {
	// 2. The metadata tells the type and the Target, and so whether the item may be one for this host.
	meta, hooks, err := r.metadata(ctx, req)
	if meta == nil || err != nil {
		return reconcile.Result{}, err
	}

	// 3. An item that has nothing to do, is not due, or is left to another replica, is not read.
	known, wait, skip := r.recall(meta, hooks, slotKept)
	if skip {
		return wait, nil
	}

	// 4. The item is read in full, unless it is known, and contract.Decide tells what is to be done with it.
	readNow := known.item == nil
	if readNow {
		if known, err = r.read(ctx, req); err != nil {
			return r.conclude(ctx, req, nil, err)
		}
		if known.item == nil {
			return reconcile.Result{}, nil
		}
	}
	decision := decide(known.item, r.options.Standalone, r.clock.Now())
	if r.clock.Now().Before(known.hooks.paused) && !endsWithoutDeployer(decision) {
		return r.until(r.orDeadline(known.item, known.hooks.paused)), nil
	}

	// 5. Hooks run before and around the check of responsibility.
	run, err := r.newHookRun(ctx, hooks, known.item, decision)
	if err != nil {
		return r.conclude(ctx, req, nil, err)
	}
	if goesOn, err := run.goesOn(ctx); err != nil {
		return r.afterHookError(ctx, req, known.item, err)
	} else if !goesOn {
		return run.end(), nil
	}

	// 6. What a user asks for by annotation is accepted.
	if readNow {
		r.reportUnknownOperation(known.item)
	}
	if decision, err = r.accept(ctx, known.item, decision); err != nil {
		return r.conclude(ctx, req, nil, err)
	}
	if decision.Action == contract.Restart { // what is missing is still missing; its coming is an event
		r.forget(req.NamespacedName, false)
		return reconcile.Result{}, nil
	}

	// 7. ShouldReconcile hooks may want a job for an item that has nothing to do.
	if decision, err = run.shouldReconcile(ctx, &known, decision); err != nil {
		return r.afterHookError(ctx, req, known.item, err)
	}
	if decision.Action == contract.Nothing {
		known.hooks.again = run.again(known.hooks.again)
		r.memory.idle(known)
		return r.until(known.hooks.again), nil
	}

	// 8 to 15. The job goes one step on.
	j := r.newJob(r.memory.begin(known, r.name), decision, run)
	return r.conclude(ctx, req, j, j.run(ctx))
}

// metadata returns the metadata of an item that may be one for this host, and the hooks of its type; nil for any
// other item.
func (r *reconciler) metadata(
	ctx context.Context, req reconcile.Request,
) (*metav1.PartialObjectMetadata, hookSet, error) {
	meta := NewMetadata()
	if err := r.cache.Get(ctx, req.NamespacedName, meta); err != nil {
		r.forget(req.NamespacedName, apierrors.IsNotFound(err))
		return nil, hookSet{}, client.IgnoreNotFound(err)
	}
	itemType, typed := r.router.typeOf(meta)
	if !typed || !r.serves(itemType) {
		r.forget(req.NamespacedName, false)
		return nil, hookSet{}, nil
	}
	hooks := r.hooksFor(itemType)
	if ours, err := r.mayBeOurs(ctx, meta); err != nil || !ours && !hooks.has(sdkhook.DuringResponsibilityCheck) {
		r.forget(req.NamespacedName, false)
		return nil, hookSet{}, err
	}
	return meta, hooks, nil
}

// recall returns what is remembered of an item, without its content if that has to be read. skip tells that nothing
// is to be done about the item here and now, and wait when to do so then.
func (r *reconciler) recall(
	meta *metav1.PartialObjectMetadata, hooks hookSet, slotKept bool,
) (known entry, wait reconcile.Result, skip bool) {
	known, current := r.memory.recall(client.ObjectKeyFromObject(meta), meta.UID, meta.ResourceVersion)
	if wait, idle := r.idles(meta, known, hooks); current && idle {
		return known, wait, true
	}
	if !current {
		known.item = nil
	}
	wait, skip = r.skip(meta, known, slotKept, hooks)
	return known, wait, skip
}

// read reads an item in full, and returns what is remembered of it besides; without an item for one that is gone, or
// whose type turns out to be another one. An error is that of the read, or lock.ErrHeld or errOutdated.
func (r *reconciler) read(ctx context.Context, req reconcile.Request) (entry, error) {
	item := &v1alpha1.DeployItem{}
	if err := r.live.Get(ctx, req.NamespacedName, item); err != nil {
		r.forget(req.NamespacedName, apierrors.IsNotFound(err))
		if apierrors.IsNotFound(err) {
			return entry{}, nil
		}
		return entry{}, fmt.Errorf("read deploy item: %w", err)
	}
	if !r.serves(item.Spec.Type) { // its metadata does not tell the truth
		r.forget(req.NamespacedName, false)
		r.router.classify(item)
		return entry{}, nil
	}
	if err := r.verifyHeld(ctx, item); err != nil {
		return entry{}, err
	}
	known, _ := r.memory.recall(req.NamespacedName, item.UID, item.ResourceVersion)
	known.item = item
	return known, nil
}

// decide is contract.Decide, and without a Landscaper, which sets the jobs otherwise, Restart for each job that has
// failed for lack of something.
func decide(item *v1alpha1.DeployItem, standalone bool, now time.Time) contract.Decision {
	decision := contract.Decide(item, now)
	if decision.Action == contract.Nothing && standalone && contract.FailedForMissingReference(item) {
		decision.Action = contract.Restart
	}
	return decision
}

// endsWithoutDeployer reports whether all that is to be done is to note that a job has ended.
func endsWithoutDeployer(decision contract.Decision) bool {
	switch decision.Action {
	case contract.TimedOut, contract.GiveUp, contract.Repair, contract.EndedElsewhere:
		return true
	default:
		return false
	}
}

// accept accepts what somebody asks for, and returns what is to be done then. It leaves Restart only if the item has
// to wait for it.
func (r *reconciler) accept(
	ctx context.Context, item *v1alpha1.DeployItem, decision contract.Decision,
) (contract.Decision, error) {
	if decision.Action == contract.Accept {
		if err := r.acceptOperation(ctx, item); err != nil {
			return decision, err
		}
		decision = decide(item, r.options.Standalone, r.clock.Now())
	}
	if decision.Action != contract.Restart {
		return decision, nil
	}
	there, err := r.referencesThere(ctx, item)
	if there { // for whom the last job was set, as this one does what that was to do
		decision.Action, decision.ByHook = contract.Start, sdkhook.AskedFor(item)
	}
	return decision, err
}

// reportUnknownOperation says to the user that an item which was read asks for an operation that there is not. One
// replica is enough: the one that holds the item's lock, or comes first for it.
func (r *reconciler) reportUnknownOperation(item *v1alpha1.DeployItem) {
	unknown, key := contract.UnknownOperation(item), r.lockKey(item)
	if unknown == "" || r.locks.Rank(key) > 0 && !r.locks.Holds(key) {
		return
	}
	r.event(item, corev1.EventTypeWarning, "UnknownOperation", fmt.Sprintf(
		"the annotation %s asks for %q, which is left alone: expected %s, %s, %s or %s",
		v1alpha1.OperationAnnotation, unknown, v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile,
		v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort))
}

// acceptOperation takes the annotation that asks for an operation away and notes the operation in one write, with
// which it begins.
func (r *reconciler) acceptOperation(ctx context.Context, item *v1alpha1.DeployItem) error {
	if _, err := r.locks.Acquire(ctx, r.lockKey(item)); err != nil {
		return err
	}
	var operation string
	var effective bool
	err := r.writer.metadata(ctx, item, func(item *v1alpha1.DeployItem) {
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
	r.event(item, corev1.EventTypeNormal, "OperationAccepted", message)
	return nil
}

// conclude remembers what has come of a job's step and says when to reconcile the item again.
func (r *reconciler) conclude(ctx context.Context, req reconcile.Request, j *job, err error) (reconcile.Result, error) {
	switch {
	case errors.Is(err, lock.ErrHeld): // it is announced when it is free
		r.forget(req.NamespacedName, false)
		return pollAfter(elsewherePoll), nil
	case errors.Is(err, errOutdated):
		r.memory.outdated(req.NamespacedName)
		return reconcile.Result{RequeueAfter: outdatedPause}, nil
	case errors.Is(err, errAbandoned):
		return reconcile.Result{}, err
	case ctx.Err() != nil: // the host is shutting down; another one goes on from what is written
		r.forget(req.NamespacedName, false)
		return reconcile.Result{}, nil //nolint:nilerr // the error is the shutdown, or comes of it
	case err != nil:
		r.memory.outdated(req.NamespacedName)
		return reconcile.Result{}, err
	case j.gone:
		r.forget(req.NamespacedName, true)
		return reconcile.Result{}, nil
	case j.finished() && decide(j.item, r.options.Standalone, r.clock.Now()).Action == contract.Nothing:
		return r.idle(j), nil
	case j.finished(): // somebody asks for more
		r.forget(req.NamespacedName, false)
		return reconcile.Result{RequeueAfter: outdatedPause}, nil
	}
	if again := j.hooks.again(j.known.hooks.again); !again.IsZero() {
		j.known.due = earlier(j.known.due, again)
	}
	due := r.memory.underWay(j.known, r.clock.Now())
	if r.plugins.Running()[j.known.waitsFor] { // it has begun to run before the job was known to wait for it
		j.known.due = earlier(j.known.due, r.clock.Now().Add(firstRetry))
		due = r.memory.underWay(j.known, r.clock.Now())
	}
	return pollAfter(max(due.Sub(r.clock.Now()), time.Millisecond)), nil
}

// idle remembers an item whose job has just ended, and says when to reconcile it again. Hooks that say whether an item
// is to be reconciled are asked at once, in a reconcile of their own.
func (r *reconciler) idle(j *job) reconcile.Result {
	j.known.hooks.again = j.hooks.again(j.known.hooks.again)
	if r.hooksFor(j.item.Spec.Type).has(sdkhook.ShouldReconcile) {
		r.memory.ended(j.known)
		return pollAfter(time.Millisecond)
	}
	r.memory.idle(j.known)
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

func (r *reconciler) newJob(known entry, decision contract.Decision, hooks *hookRun) *job {
	return &job{
		r:        r,
		known:    known,
		item:     known.item,
		decision: decision,
		hooks:    hooks,
		log: r.log.With(
			"deployitem", known.item.Namespace+"/"+known.item.Name,
			"jobID", known.item.Status.JobID,
		),
	}
}

// verifyHeld checks the lock of an item that was read while the lock was held here: who has taken it since may have
// written what was read. The error is lock.ErrHeld or errOutdated if it was lost.
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
		return errOutdated
	}
	return err
}
