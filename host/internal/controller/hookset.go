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

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// hookSet are the hooks for one type of deploy items, or for one item. It is immutable. The zero value has none.
type hookSet struct {
	plugins []deployer // in the order in which they are called
	timeout time.Duration
	// unscheduled: the item has no schedule, so that hooks that have no opinion without one are left out.
	unscheduled bool
}

// has reports whether there is a hook of any of the types.
func (h hookSet) has(types ...sdkhook.Type) bool {
	return slices.ContainsFunc(h.plugins, func(p deployer) bool {
		return slices.ContainsFunc(types, func(t sdkhook.Type) bool { return h.runs(p, t) })
	})
}

// about returns the hooks that run for an item of the type.
func (h hookSet) about(item *v1alpha1.DeployItem) hookSet {
	h.unscheduled = !itemcache.HasSchedule(item.Spec.Config)
	return h
}

// asking identifies the ShouldReconcile hooks for the type: plugins and their builds; empty if there are none. Equal
// ones give equal results. Versions would not do: an author may forget to change them.
func (h hookSet) asking() string {
	var names []string
	for _, p := range h.plugins {
		if hasHook(p, sdkhook.ShouldReconcile) {
			names = append(names, p.Name()+"="+p.Build())
		}
	}
	return strings.Join(names, ",")
}

// run runs all hooks of a type and aggregates their results; nil if there are none. item and target may be nil.
// aborting are the plugins of which a hook aborts. It returns the first error, a contract.Error, or that of ctx if the
// host stops.
func (h hookSet) run(
	ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) (result *sdkhook.Result, aborting []string, err error) {
	var results []*sdkhook.Result
	for _, p := range h.plugins {
		if !h.runs(p, t) {
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

func (h hookSet) call(
	ctx context.Context, p deployer, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) ([]plugin.HookOutcome, error) {
	bounded := ctx
	if h.timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, h.timeout)
		defer cancel()
	}
	bounded, end := telemetry.Begin(bounded, telemetry.Work{Of: telemetry.KindHook, Name: string(t), By: p.Name()})
	outcomes, err := p.RunHooks(bounded, t, item, target)
	end(resultOf(ctx, outcomes, err))
	failed := func(reason, message string) contract.Error {
		return contract.Error{
			Operation: string(t), Reason: reason, Plugin: p.Name(),
			Message: text.Cut(fmt.Sprintf("%s hook of the plugin %q: %s", t, p.Name(), message), contract.MaxMessage),
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded), // which is not that of the job
		isOver(bounded) && slices.ContainsFunc(outcomes, outcomeFails): // as a function does whose time is over
		return nil, failed(reasonHookTimeout, fmt.Sprintf("no answer within %s", h.timeout))
	case err != nil: // the plugin is not running, or has crashed
		e := failed(reasonHookNotRun, err.Error())
		e.Cause = err
		return nil, e
	}
	for _, outcome := range outcomes {
		if outcome.Error != nil {
			e := failed(cmp.Or(outcome.Error.Reason, reasonHookFailed), outcome.Error.Message)
			e.Codes = outcome.Error.Codes
			return nil, e
		}
	}
	return outcomes, nil
}

// The reasons of errors of hooks without one; docs/hooks.md explains them.
const (
	reasonHookFailed  = "HookFailed"
	reasonHookTimeout = "HookTimeout"
	reasonHookNotRun  = "HookNotRun"
)

// resultOf is the result of a call for telemetry.
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

func outcomeFails(o plugin.HookOutcome) bool { return o.Error != nil }

// isOver reports whether the deadline of a context has passed, which the context itself may not know yet.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

func hasHook(p deployer, t sdkhook.Type) bool {
	return slices.Contains(p.Info().Capabilities.HookTypes, string(t))
}

// runs reports whether a plugin has a hook of a type that may have an opinion.
func (h hookSet) runs(p deployer, t sdkhook.Type) bool {
	return hasHook(p, t) &&
		(t != sdkhook.ShouldReconcile || !h.unscheduled || !p.Info().Capabilities.ScheduleInConfig)
}

// withoutContent returns a Target as hooks get it: without its content, which has credentials.
func withoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // repeats it
	return bare
}
