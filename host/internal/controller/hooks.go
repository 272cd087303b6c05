package controller

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/hook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// crashPause is how long an item is left alone in whose hooks a plugin has died again and again: others need it, too.
const crashPause = 10 * time.Minute

// missedPause and maxMissedPause bound the growing pause after which a plugin that was not running is asked for its
// hooks again, should nobody tell that it runs earlier.
const (
	missedPause    = time.Second
	maxMissedPause = time.Minute
)

// hookRequeue is how soon an item is looked at again that hooks want to see again at once.
const hookRequeue = time.Second

// schedule bounds the jobs that hooks ask for.
type schedule struct {
	// minimum is the time between the beginnings of two jobs of an item. A job that hooks ask for begins up to jitter
	// later than it is due, each item by a time of its own.
	minimum, jitter time.Duration
}

// offset is how much later than it is due a job of an item begins. It is the same in all replicas.
func (s schedule) offset(item *v1alpha1.DeployItem) time.Duration {
	if s.jitter <= 0 {
		return 0
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte(item.UID))                   // it never fails
	return time.Duration(h.Sum64() % uint64(s.jitter)) //nolint:gosec // it is less than jitter
}

// hookRun runs the hooks of one reconcile of an item.
type hookRun struct {
	r      *reconciler
	hooks  hook.Hooks
	item   *v1alpha1.DeployItem
	target *v1alpha1.Target // nil if there is none
	// decision is what is to be done with the item, as it was decided before the first hook.
	decision contract.Decision
	// overruled: a hook may have had the item worked on here although this host was not meant for it.
	overruled bool
	// result is that of all hooks so far.
	result *sdkhook.Result
	// aborting are the plugins of which a hook of the type that ran last aborts.
	aborting []string
}

// hooksFor returns the hooks that run for a type of deploy items.
func (r *reconciler) hooksFor(itemType v1alpha1.DeployItemType) hook.Hooks {
	return hook.New(r.plugins.Hooking(itemType), r.hookTimeout)
}

// newHookRun prepares the hooks of a reconcile. What only notes that a job has ended has none: no hook can hold it up.
func (r *reconciler) newHookRun(
	ctx context.Context, hooks hook.Hooks, item *v1alpha1.DeployItem, decision contract.Decision,
) (*hookRun, error) {
	p := &hookRun{r: r, item: item, decision: decision, overruled: hooks.Has(sdkhook.DuringResponsibilityCheck)}
	ours := !p.overruled || item.Status.Deployer.Identity == r.identity
	if ours && endsWithoutDeployer(decision) || !hooks.Has(sdkhook.Types()...) {
		return p, nil
	}
	p.hooks = hooks
	if item.Spec.Target == nil {
		return p, nil
	}
	target := &v1alpha1.Target{}
	err := r.cache.Get(ctx, client.ObjectKey{Namespace: item.Namespace, Name: item.Spec.Target.Name}, target)
	if apierrors.IsNotFound(err) {
		return p, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read Target: %w", err)
	}
	p.target = hook.WithoutContent(target)
	return p, nil
}

// run runs the hooks of a type. It returns their result, and adds it to that of the reconcile.
func (p *hookRun) run(ctx context.Context, t sdkhook.Type) (*sdkhook.Result, error) {
	if !p.hooks.Has(t) {
		return nil, nil //nolint:nilnil // no opinion, see sdkhook.Func
	}
	item, target := p.item, p.target
	if t == sdkhook.Start {
		item, target = nil, nil
	}
	result, aborting, err := p.hooks.Run(ctx, t, item, target)
	p.aborting = aborting
	p.add(t, result)
	return result, err
}

func (p *hookRun) add(t sdkhook.Type, result *sdkhook.Result) {
	p.result = sdkhook.Aggregate(t, p.result, result)
}

// goesOn runs the hooks up to the one after the check of responsibility, and tells whether the reconcile goes on: the
// item is one that is worked on here, and no hook ends the reconcile. The hooks during the check overrule it both
// ways.
func (p *hookRun) goesOn(ctx context.Context) (bool, error) {
	// 2
	if result, err := p.run(ctx, sdkhook.Start); err != nil || aborts(result) {
		p.reportEnd(sdkhook.Start, result)
		return false, err
	}
	// 4
	ours, err := p.r.isOurs(ctx, p.item)
	if err != nil {
		return false, err
	}
	result, err := p.run(ctx, sdkhook.DuringResponsibilityCheck)
	switch {
	case err != nil:
		return false, err
	case result != nil:
		ours = !result.AbortReconcile
	case p.overruled && endsWithoutDeployer(p.decision):
		ours = ours || p.r.claimed(p.item)
	}
	if !ours {
		return false, nil
	}
	result, err = p.run(ctx, sdkhook.AfterResponsibilityCheck)
	p.reportEnd(sdkhook.AfterResponsibilityCheck, result)
	return err == nil && !aborts(result), err
}

// reportEnd tells the user that a hook has ended the reconcile of an item with something to do.
func (p *hookRun) reportEnd(t sdkhook.Type, result *sdkhook.Result) {
	if !aborts(result) || p.decision.Action == contract.Nothing {
		return
	}
	p.r.log.Info("hook ends the reconcile", "deployitem", p.item.Namespace+"/"+p.item.Name,
		"hookType", string(t), "hookPlugins", p.aborting)
	p.r.event(p.item, corev1.EventTypeNormal, "HeldByHook", heldBy(t, p.aborting, result))
}

// heldBy says which hook holds a job up, and whether it wants to be asked again.
func heldBy(t sdkhook.Type, plugins []string, result *sdkhook.Result) string {
	message := fmt.Sprintf("a hook of type %s of the plugin %s holds the job up", t, strings.Join(plugins, ", "))
	switch {
	case result.Requeue:
		return fmt.Sprintf("%s; it is asked again after %s", message, hookRequeue)
	case result.RequeueAfter > 0:
		return fmt.Sprintf("%s; it is asked again after %s", message, result.RequeueAfter)
	default:
		return message
	}
}

// end ends a reconcile that does not go on, and returns when the next one is to come, if any: when hooks want it, or
// when the time of a job under way is over.
func (p *hookRun) end() reconcile.Result {
	p.r.forget(keyOf(p.item), false)
	return p.r.until(p.r.orDeadline(p.item, p.again(time.Time{})))
}

// orDeadline returns a time, or the end of the time of a job under way if that is earlier.
func (r *reconciler) orDeadline(item *v1alpha1.DeployItem, again time.Time) time.Time {
	if deadline, err := contract.Deadline(item); err == nil && contract.IsUnderWay(item) && !deadline.IsZero() {
		return earlier(again, deadline)
	}
	return again
}

// until returns when to look at an item again; never for the zero time.
func (r *reconciler) until(again time.Time) reconcile.Result {
	if again.IsZero() {
		return reconcile.Result{}
	}
	return pollAfter(max(again.Sub(r.clock.Now()), time.Millisecond))
}

// earlier returns the earlier of two times, of which the zero one is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// shouldReconcile asks the hooks whether an item is to be reconciled. They can have a job set for one that has
// nothing to do, and cannot stop one that has. It changes what is known of the item to when it is to be looked at
// again.
func (p *hookRun) shouldReconcile(
	ctx context.Context, known *entry, decision contract.Decision,
) (contract.Decision, error) {
	now := p.r.clock.Now()
	if !now.Before(known.again) {
		known.again = time.Time{}
	}
	if !p.hooks.Has(sdkhook.ShouldReconcile) {
		return decision, nil
	}
	result, _, err := p.hooks.Run(ctx, sdkhook.ShouldReconcile, p.item, p.target)
	var failed *hook.Error
	switch {
	case errors.As(err, &failed) && asJobError(failed).Final() && decision.Action == contract.Nothing:
		p.r.reportHook(p.item, err) // to ask again makes no sense before the item is changed
	case errors.Is(err, plugin.ErrCrashed): // it counts, whatever there is to do
		return decision, err
	case err != nil && ctx.Err() == nil && decision.Action != contract.Nothing:
		// What they have to say could not stop the job either. It is said once, and not with each poll.
		if decision.Action != contract.Continue {
			p.r.reportHook(p.item, err)
		}
		return decision, nil
	case err != nil:
		return decision, err
	}
	known.asked = p.hooks.Build(sdkhook.ShouldReconcile)
	switch {
	case decision.Action != contract.Nothing:
		p.add(sdkhook.ShouldReconcile, result)
	case result != nil && !result.AbortReconcile:
		decision.Action, known.again = p.enforce(known)
		decision.ByHook = decision.Action == contract.Start
	default:
		p.plan(known, result)
	}
	return decision, nil
}

// enforce tells whether the job that hooks ask for is set now, or when they are to be asked again.
func (p *hookRun) enforce(known *entry) (contract.Action, time.Time) {
	now := p.r.clock.Now()
	if earliest := p.earliest(); now.Before(earliest) {
		p.reportRaised(known, earliest)
		known.begins = earliest
		return contract.Nothing, earliest
	}
	offset := p.r.schedule.offset(p.item)
	if offset > 0 && (known.begins.IsZero() || now.Before(known.begins)) {
		known.begins = earlier(known.begins, now.Add(offset))
		return contract.Nothing, known.begins
	}
	known.begins = time.Time{}
	return contract.Start, time.Time{}
}

// plan notes when hooks want to be asked again that ask for no job now.
func (p *hookRun) plan(known *entry, result *sdkhook.Result) {
	if result == nil || result.RequeueAfter <= 0 || result.Requeue {
		p.add(sdkhook.ShouldReconcile, result)
		return
	}
	due := p.r.clock.Now().Add(result.RequeueAfter)
	if earliest := p.earliest(); due.Before(earliest) {
		p.reportRaised(known, earliest)
		due = earliest
	}
	known.begins = due.Add(p.r.schedule.offset(p.item))
	known.again = known.begins
}

// earliest is when the next job may begin that hooks ask for.
func (p *hookRun) earliest() time.Time {
	if last := p.item.Status.LastReconcileTime; last != nil {
		return last.Add(p.r.schedule.minimum)
	}
	return time.Time{}
}

// reportRaised tells the user, once for each generation of an item, that hooks ask for jobs too often.
func (p *hookRun) reportRaised(known *entry, earliest time.Time) {
	if known.raised == p.item.Generation {
		return
	}
	known.raised = p.item.Generation
	if p.r.locks.Rank(p.r.lockKey(p.item)) > 0 { // one replica is enough
		return
	}
	p.r.event(p.item, corev1.EventTypeWarning, "ReconcileIntervalRaised", fmt.Sprintf(
		"the schedule asks for the next job earlier than %s after the last, which is the least that the host configuration "+
			"allows (continuousReconcile.minimumInterval); it begins at %s",
		p.r.schedule.minimum, earliest.UTC().Format(time.RFC3339)))
}

// again is when the hooks of this reconcile want the next one, given when those of earlier ones want it; zero for no
// such time.
func (p *hookRun) again(before time.Time) time.Time {
	var wanted time.Time
	switch {
	case p.result == nil:
	case p.result.Requeue:
		wanted = p.r.clock.Now().Add(hookRequeue)
	case p.result.RequeueAfter > 0:
		wanted = p.r.clock.Now().Add(max(p.result.RequeueAfter, minPoll))
	}
	return earlier(before, wanted)
}

func aborts(result *sdkhook.Result) bool { return result != nil && result.AbortReconcile }

// afterHookError ends a look in which a hook has failed before there was a job to note it with.
func (r *reconciler) afterHookError(
	ctx context.Context, req reconcile.Request, item *v1alpha1.DeployItem, err error,
) (reconcile.Result, error) {
	r.reportHook(item, err)
	if errors.Is(err, plugin.ErrCrashed) || errors.Is(err, plugin.ErrNotRunning) {
		r.memory.hookMissed(item, r.name)
	}
	if errors.Is(err, plugin.ErrCrashed) && r.memory.hookCrashed(item, r.maxCrashes, r.clock.Now().Add(crashPause)) {
		r.event(item, corev1.EventTypeWarning, contract.ReasonPluginCrashed, fmt.Sprintf(
			"a plugin has ended in the middle of a hook for this deploy item again and again; it is left alone for %s: %s",
			crashPause, err))
		return r.until(r.orDeadline(item, r.clock.Now().Add(crashPause))), nil
	}
	if errors.Is(err, plugin.ErrNotRunning) { // we are told when it runs, unless it does already
		pause := min(missedPause<<min(r.memory.outdated(req.NamespacedName), 10), maxMissedPause)
		return r.until(r.orDeadline(item, r.clock.Now().Add(pause))), nil
	}
	return r.conclude(ctx, req, nil, err)
}

// reportHook tells the user and the operator of a hook that has failed.
func (r *reconciler) reportHook(item *v1alpha1.DeployItem, err error) {
	var e *hook.Error
	if !errors.As(err, &e) {
		return
	}
	r.log.Warn("hook failed; the deploy item is looked at again later", "deployitem", item.Namespace+"/"+item.Name,
		"hookPlugin", e.Plugin, "hookType", string(e.Type), "reason", e.Reason, "error", e.Message)
	r.event(item, corev1.EventTypeWarning, e.Reason, e.Error())
}

// asJobError is a hook's error as that of the job that it holds up.
func asJobError(e *hook.Error) contract.Error {
	return contract.Error{
		Codes: e.Codes, Operation: string(e.Type), Reason: e.Reason, Message: cut(e.Error(), maxMessage),
	}
}
