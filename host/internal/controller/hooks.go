package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// hookSet are the hooks that run for one type of deploy items. They do not change. The zero value has none.
type hookSet struct {
	plugins []deployer // in the order in which they are called
	timeout time.Duration
}

// has tells whether there is a hook of any of the types.
func (h hookSet) has(types ...sdkhook.Type) bool {
	return slices.ContainsFunc(h.plugins, func(p deployer) bool {
		return slices.ContainsFunc(types, func(t sdkhook.Type) bool { return hasHook(p, t) })
	})
}

// build names the plugins with hooks of a type and their builds, so that two of which these are the same give the same results; empty
// if there are none. Versions would not do: they are free text, which an author may forget to change.
func (h hookSet) build(t sdkhook.Type) string {
	var names []string
	for _, p := range h.plugins {
		if hasHook(p, t) {
			names = append(names, p.Name()+"="+p.Build())
		}
	}
	return strings.Join(names, ",")
}

// run runs all hooks of a type and aggregates their results; nil if none has one. item and target are nil where the type says so. aborting
// are the names of the plugins that have a function which aborts. It stops at the first error, which is an *Error.
func (h hookSet) run(
	ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) (result *sdkhook.Result, aborting []string, err error) {
	var results []*sdkhook.Result
	for _, p := range h.plugins {
		if !hasHook(p, t) {
			continue
		}
		outcomes, err := h.call(ctx, p, t, item, target)
		if err != nil {
			return nil, nil, err
		}
		for _, outcome := range outcomes {
			results = append(results, outcome.Result)
		}
		if slices.ContainsFunc(outcomes, outcomeAborts) {
			aborting = append(aborting, p.Name())
		}
	}
	return sdkhook.Aggregate(t, results...), aborting, nil
}

func (h hookSet) call(ctx context.Context, p deployer, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]plugin.HookOutcome, error) {
	bounded := ctx
	if h.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	bounded, end := telemetry.Begin(bounded, telemetry.Work{Of: telemetry.KindHook, Name: string(t), By: p.Name()})
	outcomes, err := p.RunHooks(bounded, t, item, target)
	end(resultOf(ctx, outcomes, err))
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		return nil, &hookError{plugin: p.Name(), hookType: t, reason: reasonHookTimeout, message: fmt.Sprintf("no answer within %s", h.timeout), err: err}
	case err != nil:
		return nil, &hookError{plugin: p.Name(), hookType: t, reason: reasonHookNotRun, message: err.Error(), err: err}
	}
	for _, outcome := range outcomes {
		if e := outcome.Error; e != nil {
			return nil, &hookError{plugin: p.Name(), hookType: t, reason: cmp.Or(e.Reason, reasonHookFailed), message: e.Message, codes: e.Codes}
		}
	}
	return outcomes, nil
}

// resultOf is what has come of a call, in a word.
func resultOf(ctx context.Context, outcomes []plugin.HookOutcome, err error) string {
	switch {
	case err == nil && slices.ContainsFunc(outcomes, func(o plugin.HookOutcome) bool { return o.Error != nil }):
		return telemetry.ResultFailed
	case err == nil && slices.ContainsFunc(outcomes, outcomeAborts):
		return telemetry.ResultAbort
	case err == nil:
		return telemetry.ResultDone
	default:
		return telemetry.ResultOf(ctx, err)
	}
}

func outcomeAborts(o plugin.HookOutcome) bool { return aborts(o.Result) }

func hasHook(p deployer, t sdkhook.Type) bool {
	return slices.Contains(p.Info().Capabilities.HookTypes, string(t))
}

// The reasons of errors for which a hook function gives none.
const (
	// reasonHookFailed: a hook function has returned an error.
	reasonHookFailed = "HookFailed"
	// reasonHookTimeout: the hooks of a plugin have not answered in time.
	reasonHookTimeout = "HookTimeout"
	// reasonHookNotRun: the plugin is not running, or has ended in the middle of the call; Error.Err tells which.
	reasonHookNotRun = "HookNotRun"
)

// hookError is why the hooks of a type have no result.
type hookError struct {
	plugin   string // whose hook it was
	hookType sdkhook.Type
	reason   string
	message  string
	codes    []v1alpha1.ErrorCode // of what a hook function has returned
	err      error                // of the call; nil for an error of a hook function
}

// Error says which hook it was and what it has said.
func (e *hookError) Error() string {
	return fmt.Sprintf("%s hook of the plugin %q: %s", e.hookType, e.plugin, e.message)
}

// Unwrap returns the error of the call.
func (e *hookError) Unwrap() error { return e.err }

// problem is the error as that of the job that it holds up.
func (e *hookError) problem() contract.Error {
	return contract.Error{
		Codes: e.codes, Operation: string(e.hookType), Reason: e.reason, Message: contract.Cut(e.Error(), maxMessage),
	}
}

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

// hookRun runs the hooks of one reconcile of an item.
type hookRun struct {
	r      *reconciler
	hooks  hookSet
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
func (r *reconciler) hooksFor(itemType v1alpha1.DeployItemType) hookSet {
	return hookSet{plugins: r.plugins.Hooking(itemType), timeout: r.options.HookTimeout}
}

// newHookRun prepares the hooks of a reconcile. What only notes that a job has ended has none: no hook can hold it up.
func (r *reconciler) newHookRun(
	ctx context.Context, hooks hookSet, item *v1alpha1.DeployItem, decision contract.Decision,
) (*hookRun, error) {
	p := &hookRun{r: r, item: item, decision: decision, overruled: hooks.has(sdkhook.DuringResponsibilityCheck)}
	ours := !p.overruled || item.Status.Deployer.Identity == r.options.Identity
	if ours && endsWithoutDeployer(decision) || !hooks.has(sdkhook.Types()...) {
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
	p.target = withoutContent(target)
	return p, nil
}

// run runs the hooks of a type. It returns their result, and adds it to that of the reconcile.
func (p *hookRun) run(ctx context.Context, t sdkhook.Type) (*sdkhook.Result, error) {
	if !p.hooks.has(t) {
		return nil, nil //nolint:nilnil // no opinion, see sdkhook.Func
	}
	item, target := p.item, p.target
	if t == sdkhook.Start {
		item, target = nil, nil
	}
	result, aborting, err := p.hooks.run(ctx, t, item, target)
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
	if errors.Is(err, plugin.ErrCrashed) && r.memory.hookCrashed(item, r.options.MaxCrashes, r.clock.Now().Add(crashPause)) {
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
	var e *hookError
	if !errors.As(err, &e) {
		return
	}
	r.log.Warn("hook failed; the deploy item is looked at again later", "deployitem", item.Namespace+"/"+item.Name,
		"hookPlugin", e.plugin, "hookType", string(e.hookType), "reason", e.reason, "error", e.message)
	r.event(item, corev1.EventTypeWarning, e.reason, e.Error())
}

// withoutContent returns a Target as hooks get it: without the content that it may have, which are credentials.
func withoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // repeats it
	return bare
}
