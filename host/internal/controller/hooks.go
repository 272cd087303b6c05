package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// crashPause is how long an item is skipped during whose hooks a plugin has crashed repeatedly: others need the plugin.
const crashPause = 10 * time.Minute

// hookRequeue is the pause before an item is reconciled again that hooks want to be requeued at once.
const hookRequeue = time.Second

// hookRun runs the hooks of one reconcile of an item.
type hookRun struct {
	r      *reconciler
	hooks  pluginhook.Set
	item   *v1alpha1.DeployItem
	target *v1alpha1.Target // nil if there is none
	// decision is the one before the first hook.
	decision contract.Decision
	// canOverrule: there are hooks that can make this host responsible for the item.
	canOverrule bool
	// result is that of all hooks so far.
	result *sdkhook.Result
	// aborting are the plugins of which a hook of the type that ran last aborts.
	aborting []string
}

// hooksFor returns the hooks that run for a type of deploy items.
func (r *reconciler) hooksFor(itemType v1alpha1.DeployItemType) pluginhook.Set {
	return pluginhook.Set{Plugins: r.plugins.Hooking(itemType), Timeout: r.options.HookTimeout}
}

// newHookRun prepares the hooks of a reconcile. None run if only the end of a job is to be written, unless only a hook
// can make this host responsible for the item.
func (r *reconciler) newHookRun(
	ctx context.Context, hooks pluginhook.Set, item *v1alpha1.DeployItem, decision contract.Decision,
) (*hookRun, error) {
	p := &hookRun{r: r, item: item, decision: decision, canOverrule: hooks.Has(sdkhook.DuringResponsibilityCheck)}
	ours := !p.canOverrule || item.Status.Deployer.Identity == r.options.Identity
	if ours && decision.EndsJob() || !hooks.Has(sdkhook.Types()...) {
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
	p.target = pluginhook.Target(target)
	return p, nil
}

// run runs the hooks of a type, returns their result, and adds it to that of the reconcile.
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

// goesOn checks responsibility and runs the hooks before, during and after that. It reports whether the reconcile goes
// on: this host is responsible for the item, and no hook ends the reconcile. The hooks during the check overrule it.
func (p *hookRun) goesOn(ctx context.Context) (bool, error) {
	if result, err := p.run(ctx, sdkhook.Start); err != nil || pluginhook.Aborts(result) {
		p.reportEnd(sdkhook.Start, result)
		return false, err
	}
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
	case p.canOverrule && p.decision.EndsJob():
		ours = ours || p.r.deployedHere(p.item)
	}
	if !ours {
		return false, nil
	}
	result, err = p.run(ctx, sdkhook.AfterResponsibilityCheck)
	p.reportEnd(sdkhook.AfterResponsibilityCheck, result)
	return err == nil && !pluginhook.Aborts(result), err
}

// reportEnd reports to the user that a hook has ended the reconcile, if there was something to do.
func (p *hookRun) reportEnd(t sdkhook.Type, result *sdkhook.Result) {
	if !pluginhook.Aborts(result) || p.decision.Action == contract.Nothing {
		return
	}
	p.r.log.Info("hook ends the reconcile", "deployitem", p.item.Namespace+"/"+p.item.Name,
		"hookType", string(t), "hookPlugins", p.aborting)
	p.r.recorder.Record(p.item, corev1.EventTypeNormal, "HeldByHook", heldBy(t, p.aborting, result))
}

// heldBy says which hook holds a job up, and when it is asked again.
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

// end ends a reconcile that does not go on, and returns when to reconcile the item again: when hooks want it, or at the
// deadline of a running job.
func (p *hookRun) end() reconcile.Result {
	p.r.forget(keyOf(p.item), false)
	return p.r.until(p.r.orDeadline(p.item, p.again(time.Time{})))
}

// orDeadline returns a time, or the deadline of a running job if that is earlier and has not passed: after the deadline
// a job that comes here is left to other hosts, or to hooks.
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

// earlier returns the earlier of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// again is when hooks want the next reconcile, those of earlier reconciles (before) included; zero for no such time.
func (p *hookRun) again(before time.Time) time.Time {
	var wanted time.Time
	switch {
	case p.result == nil:
	case p.result.Requeue:
		wanted = p.r.clock.Now().Add(hookRequeue)
	case p.result.RequeueAfter > 0:
		wanted = p.r.clock.Now().Add(max(p.result.RequeueAfter, job.MinPoll))
	}
	return earlier(before, wanted)
}

// afterHookError ends a reconcile in which a hook has failed before the job.
func (r *reconciler) afterHookError(
	ctx context.Context, req reconcile.Request, item *v1alpha1.DeployItem, err error,
) (reconcile.Result, error) {
	r.reportHook(item, err)
	crashed := errors.Is(err, plugin.ErrCrashed)
	if !crashed && !errors.Is(err, plugin.ErrNotRunning) {
		return r.afterError(ctx, req, nil, err)
	}
	var e contract.Error
	errors.As(err, &e)
	missed := r.memory.hookMissed(item, r.name, e.Plugin)
	if crashed && r.memory.hookCrashed(item, r.options.MaxCrashes, r.clock.Now().Add(crashPause)) {
		r.recorder.Record(item, corev1.EventTypeWarning, contract.ReasonPluginCrashed, fmt.Sprintf(
			"a plugin has ended in the middle of a hook for this deploy item again and again; it is left alone for %s: %s",
			crashPause, err))
		return r.until(r.orDeadline(item, r.clock.Now().Add(crashPause))), nil
	}
	// There is an event when the plugin runs, unless it does already.
	return r.until(r.orDeadline(item, r.clock.Now().Add(joberror.RetryPause(missed, r.random())))), nil
}

// reportHook reports a failed hook to user and operator.
func (r *reconciler) reportHook(item *v1alpha1.DeployItem, err error) {
	var e contract.Error
	if !errors.As(err, &e) {
		return
	}
	r.log.Warn("hook failed; the deploy item is reconciled again later", "deployitem", item.Namespace+"/"+item.Name,
		"hookPlugin", e.Plugin, "hookType", e.Operation, "reason", e.Reason, "error", e.Message)
	r.recorder.Record(item, corev1.EventTypeWarning, e.Reason, e.Message)
}
