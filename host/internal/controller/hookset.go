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
// which is a *hookError.
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
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, context.DeadlineExceeded):
		message := fmt.Sprintf("no answer within %s", h.timeout)
		return nil, &hookError{plugin: p.Name(), hookType: t, reason: reasonHookTimeout, message: message, err: err}
	case err != nil:
		return nil, &hookError{plugin: p.Name(), hookType: t, reason: reasonHookNotRun, message: err.Error(), err: err}
	}
	for _, outcome := range outcomes {
		if e := outcome.Error; e != nil {
			reason := cmp.Or(e.Reason, reasonHookFailed)
			return nil, &hookError{plugin: p.Name(), hookType: t, reason: reason, message: e.Message, codes: e.Codes}
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
	// reasonHookNotRun: the plugin is not running, or has ended in the middle of the call; hookError.err says which.
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

// withoutContent returns a Target as hooks get it: without the content that it may have, which are credentials.
func withoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // repeats it
	return bare
}
