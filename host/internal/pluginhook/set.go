// Package pluginhook calls the hooks of plugins for a DeployItem, in the order of the plugins, and aggregates their
// results.
package pluginhook

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
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// Plugin is a plugin with hooks; see plugin.Plugin.
type Plugin interface {
	Name() string
	Info() plugin.Info
	// Build identifies the program.
	Build() string
	RunHooks(ctx context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error)
}

// Set is the hooks for one type of deploy items, or for one item; see About. It is immutable. The zero value has none.
type Set struct {
	// Plugins are in the order of their calls.
	Plugins []Plugin
	// Timeout bounds the call of one plugin; zero for no bound.
	Timeout time.Duration
	// Targets resolves the Target of an item for plugins with the capability HookTargets.
	Targets *target.Resolver
	// unscheduled: the item has no schedule. Plugins that need one for an opinion are not asked.
	unscheduled bool
}

// Has reports whether there is a hook of any of the types.
func (h Set) Has(types ...sdkhook.Type) bool {
	return slices.ContainsFunc(h.Plugins, func(p Plugin) bool {
		return slices.ContainsFunc(types, func(t sdkhook.Type) bool { return h.runs(p, t) })
	})
}

// About returns the hooks for an item of the type.
func (h Set) About(item *v1alpha1.DeployItem) Set {
	h.unscheduled = !itemcache.HasSchedule(item.Spec.Config)
	return h
}

// Asking identifies the ShouldReconcile hooks for the type: plugins and their builds; empty if there are none. Equal
// identities give equal results. Builds and not versions count, because an author may forget to change a version.
func (h Set) Asking() string {
	var names []string
	for _, p := range h.Plugins {
		if hasHook(p, sdkhook.ShouldReconcile) {
			names = append(names, p.Name()+"="+p.Build())
		}
	}
	return strings.Join(names, ",")
}

// Run runs all hooks of a type and aggregates their results; nil if there are none. item and target may be nil.
// aborting are the plugins with a hook that aborts. The error is the first contract.Error, or the cause of ctx if the
// host stops.
func (h Set) Run(
	ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) (result *sdkhook.Result, aborting []string, err error) {
	var results []*sdkhook.Result
	for _, p := range h.Plugins {
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

func (h Set) call(
	ctx context.Context, p Plugin, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) ([]plugin.HookOutcome, error) {
	bounded := ctx
	if h.Timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, h.Timeout)
		defer cancel()
	}
	bounded, end := telemetry.Begin(bounded, telemetry.Work{Of: telemetry.KindHook, Name: string(t), By: p.Name()})
	outcomes, err := p.RunHooks(bounded, h.callOf(bounded, p, t, item, target))
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
	// A function may fail by itself when its time is over.
	case errors.Is(err, context.DeadlineExceeded), isOver(bounded) && slices.ContainsFunc(outcomes, outcomeFails):
		return nil, failed(reasonHookTimeout, fmt.Sprintf("no answer within %s", h.Timeout))
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

// callOf returns the input of a plugin's hooks. Before this host is known to be responsible for an item, its Target is
// not resolved. A problem of the Target stops no hook.
func (h Set) callOf(
	ctx context.Context, p Plugin, t sdkhook.Type, item *v1alpha1.DeployItem, bare *v1alpha1.Target,
) plugin.HookCall {
	call := plugin.HookCall{Type: t, DeployItem: item, Target: bare}
	if item == nil || t == sdkhook.DuringResponsibilityCheck || !p.Info().Capabilities.HookTargets {
		return call
	}
	resolved, err := h.Targets.Target(ctx, item)
	if err != nil {
		call.Problem = new(joberror.ForPlugin(joberror.FromHost(contract.OperationResolve, err)))
	}
	call.Resolved = resolved
	return call
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

// Aborts reports whether a result aborts a reconcile; result may be nil.
func Aborts(result *sdkhook.Result) bool { return result != nil && result.AbortReconcile }

func outcomeAborts(o plugin.HookOutcome) bool { return Aborts(o.Result) }

func outcomeFails(o plugin.HookOutcome) bool { return o.Error != nil }

// isOver reports whether the deadline of a context has passed; the context may learn of it a moment later.
func isOver(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

func hasHook(p Plugin, t sdkhook.Type) bool {
	return slices.Contains(p.Info().Capabilities.HookTypes, string(t))
}

// runs reports whether to ask a plugin for an opinion.
func (h Set) runs(p Plugin, t sdkhook.Type) bool {
	return hasHook(p, t) &&
		(t != sdkhook.ShouldReconcile || !h.unscheduled || !p.Info().Capabilities.ScheduleInConfig)
}

// Target returns a Target as hooks get it: its content has credentials, and is left out.
func Target(target *v1alpha1.Target) *v1alpha1.Target {
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // it repeats the content
	return bare
}
