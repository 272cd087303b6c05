// Package hook runs the extension hooks of plugins: it knows whose hooks run for a type of deploy items, calls them in order, and makes
// one result of theirs. What becomes of a result is the reconcile flow's matter.
package hook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Plugin is a plugin with hooks; see plugin.Plugin.
type Plugin interface {
	Name() string
	Info() plugin.Info
	Build() string
	RunHooks(ctx context.Context, t hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]plugin.HookOutcome, error)
}

// Hooks are the hooks that run for one type of deploy items. They do not change. The zero value has none.
type Hooks struct {
	plugins []Plugin // in the order in which they are called
	timeout time.Duration
}

// New returns the hooks of some plugins, which are called in this order. timeout bounds each call; zero for no bound.
func New[P Plugin](plugins []P, timeout time.Duration) Hooks {
	h := Hooks{timeout: timeout}
	for _, p := range plugins {
		h.plugins = append(h.plugins, p)
	}
	return h
}

// Has tells whether there is a hook of any of the types.
func (h Hooks) Has(types ...hook.Type) bool {
	return slices.ContainsFunc(h.plugins, func(p Plugin) bool {
		return slices.ContainsFunc(types, func(t hook.Type) bool { return has(p, t) })
	})
}

// Build names the plugins with hooks of a type and their builds, so that two Hooks of which these are the same give the same results; empty
// if there are none. Versions would not do: they are free text, which an author may forget to change.
func (h Hooks) Build(t hook.Type) string {
	var names []string
	for _, p := range h.plugins {
		if has(p, t) {
			names = append(names, p.Name()+"="+p.Build())
		}
	}
	return strings.Join(names, ",")
}

// Run runs all hooks of a type and aggregates their results; nil if none has one. item and target are nil where the type says so. aborting
// are the names of the plugins that have a function which aborts. It stops at the first error, which is an *Error.
func (h Hooks) Run(
	ctx context.Context, t hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
) (result *hook.Result, aborting []string, err error) {
	var results []*hook.Result
	for _, p := range h.plugins {
		if !has(p, t) {
			continue
		}
		outcomes, err := h.call(ctx, p, t, item, target)
		if err != nil {
			return nil, nil, err
		}
		for _, outcome := range outcomes {
			results = append(results, outcome.Result)
		}
		if slices.ContainsFunc(outcomes, aborts) {
			aborting = append(aborting, p.Name())
		}
	}
	return hook.Aggregate(t, results...), aborting, nil
}

func (h Hooks) call(ctx context.Context, p Plugin, t hook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]plugin.HookOutcome, error) {
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
		return nil, &Error{Plugin: p.Name(), Type: t, Reason: ReasonTimeout, Message: fmt.Sprintf("no answer within %s", h.timeout), Err: err}
	case err != nil:
		return nil, &Error{Plugin: p.Name(), Type: t, Reason: ReasonNotRun, Message: err.Error(), Err: err}
	}
	for _, outcome := range outcomes {
		if e := outcome.Error; e != nil {
			return nil, &Error{Plugin: p.Name(), Type: t, Reason: cmp.Or(e.Reason, ReasonFailed), Message: e.Message, Codes: e.Codes}
		}
	}
	return outcomes, nil
}

// resultOf is what has come of a call, in a word.
func resultOf(ctx context.Context, outcomes []plugin.HookOutcome, err error) string {
	switch {
	case err == nil && slices.ContainsFunc(outcomes, func(o plugin.HookOutcome) bool { return o.Error != nil }):
		return telemetry.ResultFailed
	case err == nil && slices.ContainsFunc(outcomes, aborts):
		return telemetry.ResultAbort
	case err == nil:
		return telemetry.ResultDone
	default:
		return telemetry.ResultOf(ctx, err)
	}
}

func aborts(o plugin.HookOutcome) bool { return o.Result != nil && o.Result.AbortReconcile }

func has(p Plugin, t hook.Type) bool {
	return slices.Contains(p.Info().Capabilities.HookTypes, string(t))
}

// The reasons of errors for which a hook function gives none.
const (
	// ReasonFailed: a hook function has returned an error.
	ReasonFailed = "HookFailed"
	// ReasonTimeout: the hooks of a plugin have not answered in time.
	ReasonTimeout = "HookTimeout"
	// ReasonNotRun: the plugin is not running, or has ended in the middle of the call; Error.Err tells which.
	ReasonNotRun = "HookNotRun"
)

// Error is why the hooks of a type have no result.
type Error struct {
	// Plugin is the name of the plugin whose hook it was.
	Plugin string
	Type   hook.Type
	// Reason is a CamelCase word for machines; never empty after Run.
	Reason string
	// Message is a sentence for people.
	Message string
	// Codes classify what a hook function has returned.
	Codes []v1alpha1.ErrorCode
	// Err is that of the call; nil for an error of a hook function.
	Err error
}

// Error says which hook it was and what it has said.
func (e *Error) Error() string {
	return fmt.Sprintf("%s hook of the plugin %q: %s", e.Type, e.Plugin, e.Message)
}

// Unwrap returns the error of the call.
func (e *Error) Unwrap() error { return e.Err }

// WithoutContent returns a Target as hooks get it: without the content that it may have, which are credentials. It takes nil for none.
func WithoutContent(target *v1alpha1.Target) *v1alpha1.Target {
	if target == nil {
		return nil
	}
	bare := target.DeepCopy()
	bare.Spec.Configuration = nil
	delete(bare.Annotations, corev1.LastAppliedConfigAnnotation) // repeats it
	return bare
}
