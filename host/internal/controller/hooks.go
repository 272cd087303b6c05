package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemevents"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

const reasonHeldByHook = "HeldByHook"

// hookRequeue is the pause of an item if its hooks request a reconcile at once.
const hookRequeue = time.Second

// hookRunner runs the hooks of the items of one plugin.
type hookRunner struct {
	options        Options
	responsibility responsibility
	// isPreferred reports whether an item prefers this replica.
	isPreferred func(item *v1alpha1.DeployItem) bool
	cache       client.Reader // Targets
	recorder    *itemevents.Recorder
	clock       clock.PassiveClock
	log         *slog.Logger
}

// hookRun runs the hooks of one reconcile of an item.
type hookRun struct {
	*hookRunner
	hooks  pluginhook.Set
	item   *v1alpha1.DeployItem
	target *v1alpha1.Target // nil if there is none
	// decision is the decision before the first hook.
	decision contract.Decision
	// goesOn: this host is responsible for the item, and no hook has ended the reconcile.
	goesOn bool
	// result is that of all hooks so far.
	result *sdkhook.Result
	// aborting are the plugins with an aborting hook of the last type.
	aborting []string
}

var _ job.Hooks = (*hookRun)(nil)

// begin checks responsibility and runs the hooks before, during and after that. The hooks during the check overrule it.
// No hooks run, neither here nor later, if only the end of a job is to be written, unless only a hook can make this
// host responsible for the item.
func (r *hookRunner) begin(
	ctx context.Context, hooks pluginhook.Set, item *v1alpha1.DeployItem, decision contract.Decision,
) (*hookRun, error) {
	p := &hookRun{hookRunner: r, item: item, decision: decision}
	canOverrule := hooks.Has(sdkhook.DuringResponsibilityCheck)
	ours := !canOverrule || item.Status.Deployer.Identity == r.options.Identity
	if (!ours || !decision.EndsJob()) && hooks.Has(sdkhook.Types()...) {
		p.hooks = hooks
		if err := p.readTarget(ctx); err != nil {
			return p, err
		}
	}
	var err error
	p.goesOn, err = p.runFirst(ctx, canOverrule)
	return p, err
}

// readTarget reads the Target of the item, as hooks get it.
func (p *hookRun) readTarget(ctx context.Context) error {
	if p.item.Spec.Target == nil {
		return nil
	}
	target := &v1alpha1.Target{}
	err := p.cache.Get(ctx, client.ObjectKey{Namespace: p.item.Namespace, Name: p.item.Spec.Target.Name}, target)
	switch {
	case apierrors.IsNotFound(err):
		return nil
	case err != nil:
		return fmt.Errorf("read Target: %w", err)
	}
	p.target = pluginhook.Target(target)
	return nil
}

// runFirst runs the hooks around the check of responsibility, and reports whether the reconcile goes on. canOverrule:
// a hook can make this host responsible for the item.
func (p *hookRun) runFirst(ctx context.Context, canOverrule bool) (goesOn bool, err error) {
	if result, err := p.run(ctx, sdkhook.Start); err != nil || pluginhook.Aborts(result) {
		p.reportEnd(sdkhook.Start, result)
		return false, err
	}
	ours, err := p.responsibility.sure(ctx, p.item)
	if err != nil {
		return false, err
	}
	result, err := p.run(ctx, sdkhook.DuringResponsibilityCheck)
	switch {
	case err != nil:
		return false, err
	case result != nil:
		ours = !result.AbortReconcile
	case canOverrule && p.decision.EndsJob():
		ours = ours || p.responsibility.deployedHere(p.item)
	}
	if !ours {
		return false, nil
	}
	result, err = p.run(ctx, sdkhook.AfterResponsibilityCheck)
	p.reportEnd(sdkhook.AfterResponsibilityCheck, result)
	return err == nil && !pluginhook.Aborts(result), err
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

// Has implements job.Hooks.
func (p *hookRun) Has(types ...sdkhook.Type) bool { return p.hooks.Has(types...) }

// Run implements job.Hooks.
func (p *hookRun) Run(ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem) (*job.Held, error) {
	p.item = item
	result, err := p.run(ctx, t)
	if err != nil || !pluginhook.Aborts(result) {
		return nil, err
	}
	return &job.Held{Plugins: p.aborting, Message: heldBy(t, p.aborting, result)}, nil
}

// ReportError implements job.Hooks.
func (p *hookRun) ReportError(item *v1alpha1.DeployItem, err error) { p.reportError(item, err) }

// again is the time of the next reconcile at the request of hooks, those of earlier reconciles (before) included; zero
// for no such time.
func (p *hookRun) again(before time.Time) time.Time {
	var wanted time.Time
	switch {
	case p.result == nil:
	case p.result.Requeue:
		wanted = p.clock.Now().Add(hookRequeue)
	case p.result.RequeueAfter > 0:
		wanted = p.clock.Now().Add(max(p.result.RequeueAfter, contract.MinPoll))
	}
	return earlier(before, wanted)
}

// reportEnd reports to the user that a hook has ended the reconcile, if there was something to do.
func (p *hookRun) reportEnd(t sdkhook.Type, result *sdkhook.Result) {
	if !pluginhook.Aborts(result) || p.decision.Action == contract.Nothing {
		return
	}
	p.log.Info("hook ends the reconcile", "deployitem", p.item.Namespace+"/"+p.item.Name,
		"hookType", string(t), "hookPlugins", p.aborting)
	p.recorder.Record(p.item, corev1.EventTypeNormal, reasonHeldByHook, heldBy(t, p.aborting, result))
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

// reportError reports a failed hook to user and operator.
func (r *hookRunner) reportError(item *v1alpha1.DeployItem, err error) {
	var e contract.Error
	if !errors.As(err, &e) {
		return
	}
	r.log.Warn("hook failed; the deploy item is reconciled again later", "deployitem", item.Namespace+"/"+item.Name,
		"hookPlugin", e.Plugin, "hookType", e.Operation, "reason", e.Reason, "error", e.Message)
	r.recorder.Record(item, corev1.EventTypeWarning, e.Reason, e.Message)
}

// earlier returns the earlier of two times; the zero time is none.
func earlier(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
