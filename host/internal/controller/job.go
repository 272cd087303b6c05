package controller

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

const (
	// defaultPoll is the pause before the next call of a waiting job whose plugin names none.
	defaultPoll = 5 * time.Second
	// minPoll is the least pause between two calls for a job.
	minPoll = 100 * time.Millisecond
	// maxConflicts is how often a write is tried again after conflicts that do not concern the job.
	maxConflicts = 20
)

// job carries on an item's job by one reconcile: from the decision to what is remembered until the next one.
type job struct {
	r        *reconciler
	decision contract.Decision
	hooks    *hookRun
	// known is what is remembered until the next step. Its item is the one below.
	known entry
	item  *v1alpha1.DeployItem
	// conditions are those that the item's HTTP hook declares.
	conditions []v1alpha1.ConditionType
	lock       *lock.Lock // nil before it is acquired
	log        *slog.Logger
	gone       bool // the item does not exist any more, or its last finalizer is removed
	calling    bool // the plugin was called
	reported   bool // the plugin has returned an outcome
	told       bool // the plugin has recorded an event that is no warning
	// step and message are the last progress that the plugin has reported and that is not in the status yet.
	step, message string

	mu sync.Mutex // guards note, item and stored during a call, when two goroutines write
	// stored is the item as the API server has it, as long as the pick-up is pending: the next write of the status picks
	// the job up, and item is what that write will make of it. Nil otherwise.
	stored *v1alpha1.DeployItem
	// queuedAt is since when the job was queued when it was begun; zero if it was not.
	queuedAt time.Time
	// before is the status before a job of an item that was deployed as its spec says; nil for any other job.
	before *v1alpha1.DeployItemStatus
	// refused is why the API server has not taken what the plugin wanted to have saved; nil if it has.
	refused *itemclient.RefusedError
	// note is a change that is written together with the outcome of the call; nil for none.
	note func(*v1alpha1.DeployItem)
}

func (r *reconciler) newJob(
	item *v1alpha1.DeployItem, known entry, decision contract.Decision, hooks *hookRun,
) *job {
	log := r.log.With("deployitem", item.Namespace+"/"+item.Name, "jobID", item.Status.JobID)
	return &job{r: r, known: known, item: item, decision: decision, hooks: hooks, log: log}
}

// leaves is the item as the job has left it; nil without a job.
func (j *job) leaves() *v1alpha1.DeployItem {
	if j == nil {
		return nil
	}
	return j.item
}

func (j *job) finished() bool { return contract.Finished(j.item) }

// run carries the job on. Errors of the job go into the item's status; the error returned is that of a write, a read or
// an End hook, errOutdated, errAbandoned, lock.ErrHeld, or ctx.Err() when the host stops.
func (j *job) run(ctx context.Context) error {
	// 8. The job gets a slot, or is queued for one; then it acquires the item's lock.
	if j.needsCall() || j.callsFinalizeHook() {
		if !j.r.slots.Acquire(keyOf(j.item), j.slotShare(), j.slotClass()) {
			return j.waitForSlot(ctx)
		}
		defer j.r.slots.Release(keyOf(j.item))
		telemetry.LogWorkers(j.r.log, j.r.name, j.r.slots.Used(), j.r.slots.Size())
	}
	if j.decision.Action != contract.Start { // else the job does not exist yet
		j.observe(ctx)
	}
	if err := j.takeLock(ctx); err != nil {
		return err
	}

	// 9. The job is picked up by one write, before the call of a plugin or, if that promises to wait for it, in the call.
	if j.onlyEnds() {
		return j.endWithoutDeployer(ctx)
	}
	if err := j.pickUpOrTakeOver(ctx); err != nil {
		return err
	}
	if !j.needsCall() {
		return j.finishWithoutCall(ctx)
	}

	// 10. Context, Target and its content are resolved; then they and the item get finalizers.
	call, err := j.prepare(ctx)
	if err != nil {
		return j.handleError(ctx, asError("Prepare", err))
	}
	if err := j.addFinalizers(ctx, call); err != nil {
		return j.pickUpAfter(ctx, err)
	}

	// 11. The hooks before the operation run.
	if goesOn, err := j.runBefore(ctx); err != nil || !goesOn {
		return err
	}

	// 12. The plugin is called.
	outcome, err := j.call(ctx, j.operation(), call)
	if err != nil {
		return j.handleError(ctx, err)
	}

	// 13. Exports are written, and then the final status; or what the job waits for.
	if err := j.handleOutcome(ctx, outcome); err != nil {
		return err
	}

	// 14. End hooks run.
	return j.runEnd(ctx)
}

// onlyEnds reports whether one write ends the job.
func (j *job) onlyEnds() bool {
	return endsWithoutDeployer(j.decision) || j.decision.Action == contract.SucceedUnchanged
}

// endWithoutDeployer ends a job with one write, without a call of the plugin.
func (j *job) endWithoutDeployer(ctx context.Context) error {
	switch j.decision.Action {
	case contract.SucceedUnchanged:
		return j.succeedUnchanged(ctx)
	case contract.TimedOut:
		return j.fail(ctx, j.timeoutError(j.item, ""))
	case contract.GiveUp:
		return j.giveUp(ctx)
	case contract.Repair:
		return j.repair(ctx)
	default:
		return j.updateConditions(ctx)
	}
}

// pickUpOrTakeOver picks up a new job, and takes over one that another replica may have worked on.
func (j *job) pickUpOrTakeOver(ctx context.Context) error {
	switch {
	case j.begun():
		return j.takeOver(ctx)
	case j.canPickUpLater():
		j.begin(contract.Begin)
		j.observe(ctx)
		return nil
	default:
		return j.pickUp(ctx, contract.Begin)
	}
}

// canPickUpLater reports whether nothing changes anywhere before the plugin saves its provider status, so that one write
// can do both. Hooks may change something before.
func (j *job) canPickUpLater() bool {
	if !j.r.plugin.Info().Capabilities.LatePickUp || !j.deploys() ||
		j.hooks.hooks.has(sdkhook.BeforeAnyReconcile, j.beforeType()) ||
		!j.hasFinalizer() && !j.r.options.Selectors.Empty() { // who has added it must be known when the Target is gone
		return false
	}
	found, err := j.httpHook(v1alpha1.HookPreReconcile)
	return found == nil && err == nil
}

// deploys reports whether the plugin is called to deploy something.
func (j *job) deploys() bool {
	operation := j.operation()
	return operation == plugin.Reconcile || operation == plugin.ForceReconcile
}

// pickUpAfter picks the job up after an error of the API server, so that its time runs although nothing could be done.
func (j *job) pickUpAfter(ctx context.Context, err error) error {
	if j.stored == nil || errors.Is(err, itemclient.ErrOutdated) {
		return err
	}
	return errors.Join(err, j.writeStatus(ctx, func(*v1alpha1.DeployItem) {}))
}

// begun reports whether the job was picked up and has had a slot.
func (j *job) begun() bool {
	return j.decision.Action == contract.Continue || j.decision.Action == contract.Abort
}

// operation is what the plugin is called for. One without ForceReconcile reconciles as usual.
func (j *job) operation() plugin.Operation {
	switch {
	case j.decision.Action == contract.Abort:
		return plugin.Abort
	case j.decision.Deletion:
		return plugin.Delete
	case j.decision.Force && j.r.plugin.Info().Capabilities.ForceReconcile:
		return plugin.ForceReconcile
	default:
		return plugin.Reconcile
	}
}

// needsCall reports whether the plugin has to be called. It is not called to abort if it has no Abort: the running call
// is cancelled already. Nor is it called to delete an item that has no finalizer, and so never reached a deployer, or
// whose user wants to keep what was deployed.
func (j *job) needsCall() bool {
	switch operation := j.operation(); {
	case j.onlyEnds():
		return false
	case operation == plugin.Abort:
		return j.r.plugin.Info().Capabilities.Abort
	default:
		return operation != plugin.Delete || j.hasFinalizer() && !j.decision.LeaveBehind
	}
}

// callsFinalizeHook reports whether a deletion calls an HTTP hook, or cannot find out. Such a call needs a slot, also
// where the plugin is not called.
func (j *job) callsFinalizeHook() bool {
	if j.onlyEnds() || j.operation() != plugin.Delete || !j.hasFinalizer() {
		return false
	}
	found, err := j.httpHook(v1alpha1.HookFinalize)
	return err != nil || found != nil
}

// finishWithoutCall ends a job whose plugin does not have to be called.
func (j *job) finishWithoutCall(ctx context.Context) error {
	if j.decision.Action != contract.Abort {
		if err := j.finalizeOnly(ctx); err != nil {
			return j.handleError(ctx, err)
		}
		return j.finishDeletion(ctx)
	}
	if goesOn, err := j.runBefore(ctx); err != nil || !goesOn {
		return err
	}
	if err := j.fail(ctx, contract.AbortedError("")); err != nil {
		return err
	}
	return j.runEnd(ctx)
}

// begin is contract.Begin or comes from contract.Enqueue.
type begin func(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time)

// pickUp picks the job up by one conditional write, which also sets a job of our own. Nothing is changed anywhere before
// it has succeeded, so that it fences off others.
func (j *job) pickUp(ctx context.Context, begin begin) error {
	j.begin(begin)
	return j.changeStatus(ctx, func(*v1alpha1.DeployItem) {})
}

// begin has the next write of the status pick the job up.
func (j *job) begin(begin begin) {
	j.stored, j.queuedAt = j.item.DeepCopy(), j.queuedSince()
	if j.item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded && j.item.Status.ObservedGeneration == j.item.Generation {
		before := j.stored.Status
		j.before = &before
	}
	now := j.r.clock.Now()
	j.known.since = now
	if j.decision.Action == contract.Start {
		set := contract.SetJob
		if j.decision.ByHook {
			set = contract.SetJobOfHook
		}
		set(j.item, j.startedJob(), now)
	}
	begin(j.item, j.decision.Deletion, j.deployer(), now)
	j.known.retries = 0
	j.decision.Action, j.decision.JobID, j.decision.ByHook = contract.Continue, "", false
	j.log = j.r.log.With("deployitem", j.item.Namespace+"/"+j.item.Name, "jobID", j.item.Status.JobID)
}

// changeStatus changes the status by one write, and picks the job up by it if that is pending.
func (j *job) changeStatus(ctx context.Context, change func(*v1alpha1.DeployItem)) error {
	if j.stored == nil {
		return j.r.items.UpdateStatus(ctx, j.item, change)
	}
	begun := &j.item.Status
	err := j.r.items.UpdateStatus(ctx, j.stored, func(item *v1alpha1.DeployItem) {
		begun.DeepCopyInto(&item.Status)
		change(item)
	})
	if err != nil {
		return err
	}
	*j.item, j.stored = *j.stored, nil
	if j.lock != nil {
		j.lock.SetFenced()
	}
	queued := contract.IsQueued(j.item)
	j.log.Info("picked up job", "deletion", j.decision.Deletion, "force", j.decision.Force, "queued", queued)
	j.reportPickedUp(ctx, j.queuedAt)
	return nil
}

// takeOver makes a running job this replica's by one conditional write, if somebody else may have worked on it: another
// replica, which had the lock before, or another host, which was responsible for the item when the job was picked up.
// Their writes conflict with this one, and they cancel their calls.
func (j *job) takeOver(ctx context.Context) error {
	otherHost := !j.r.options.Selectors.Empty() && j.item.Status.Deployer.Identity != j.r.options.Identity
	if j.lock.Fenced() && !otherHost {
		return nil
	}
	before := j.item.Status.Deployer.Identity
	err := j.r.items.UpdateStatus(ctx, j.item, func(item *v1alpha1.DeployItem) {
		contract.TakeOver(item, j.deployer(), j.r.clock.Now())
	})
	if err != nil {
		return err
	}
	j.lock.SetFenced()
	j.log.Info("took job over", "before", before)
	telemetry.Report(ctx, telemetry.TakenOver{})
	return nil
}

func (j *job) startedJob() string {
	if j.decision.JobID != "" {
		return j.decision.JobID
	}
	return j.r.newJobID()
}

func (j *job) deployer() v1alpha1.DeployerInformation {
	info := j.r.plugin.Info()
	return v1alpha1.DeployerInformation{Identity: j.r.options.Identity, Name: info.Name, Version: info.Version}
}

// pollInterval is how long to wait before the next call of the plugin: wish, within limits, and no longer than until
// the job's deadline.
func (j *job) pollInterval(wish time.Duration) time.Duration {
	if wish <= 0 {
		wish = defaultPoll
	}
	wish = max(wish, minPoll)
	if deadline, err := contract.Deadline(j.item); err == nil && !deadline.IsZero() {
		wish = min(wish, max(deadline.Sub(j.r.clock.Now()), minPoll))
	}
	return wish
}

// prepare resolves Context, Target and, for a plugin that asks for it, what the Context names. Errors are those of
// package target, contract.Error, or of the API server.
func (j *job) prepare(ctx context.Context) (plugin.Call, error) {
	deadline, err := contract.Deadline(j.item)
	if err != nil {
		return plugin.Call{}, err
	}
	lsContext, contextErr := j.r.targets.Context(ctx, j.item)
	resolved, targetErr := j.r.targets.Target(ctx, j.item)
	if err := errors.Join(targetErr, contextErr); err != nil {
		return plugin.Call{}, err
	}
	c := plugin.Call{Target: resolved, Context: lsContext, Deadline: deadline}
	if err := c.ReadNamed(ctx, j.r.plugin.Info().Capabilities, j.r.targets); err != nil {
		return plugin.Call{}, err
	}
	return c, nil
}
