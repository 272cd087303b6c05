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

// has reports whether there is a hook of any of the types.
func (h hookSet) has(types ...sdkhook.Type) bool {
	return slices.ContainsFunc(h.plugins, func(p deployer) bool {
		return slices.ContainsFunc(types, func(t sdkhook.Type) bool { return hasHook(p, t) })
	})
}

// asking names the plugins with ShouldReconcile hooks and their builds, so that two of which these are the same give
// the same results; empty if there are none. Versions would not do: they are free text, which an author may forget to
// change.
func (h hookSet) asking() string {
	var names []string
	for _, p := range h.plugins {
		if hasHook(p, sdkhook.ShouldReconcile) {
			names = append(names, p.Name()+"="+p.Build())
		}
	}
	return strings.Join(names, ",")
}

// run runs all hooks of a type and aggregates their results; nil if none has one. item and target are nil where the
// type says so. aborting are the names of the plugins that have a function which aborts. It stops at the first error,
// which is a contract.Error, unless the host stops.
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
			Message: contract.Cut(fmt.Sprintf("%s hook of the plugin %q: %s", t, p.Name(), message), maxMessage),
		}
	}
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded): // which is not that of the job
		return nil, failed(reasonHookTimeout, fmt.Sprintf("no answer within %s", h.timeout))
	case err != nil: // the plugin is not running, or has ended in the middle of the call
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

// The reasons of errors for which a hook function gives none; docs/hooks.md says what they mean.
const (
	reasonHookFailed  = "HookFailed"
	reasonHookTimeout = "HookTimeout"
	reasonHookNotRun  = "HookNotRun"
)

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

// withoutContent returns a Target as hooks get it: without the content that it may have, which are credentials.
func withoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // repeats it
	return bare
}
