// Package hook lets a deployer run functions of its own at fixed points of the host's reconcile flow.
package hook

import (
	"context"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Type is a point of the reconcile flow.
type Type string

// The points of the reconcile flow, in the order in which they are passed. Of the four Before types that name one
// operation, one is passed in each reconcile.
const (
	// Start is the very beginning. Deploy item and Target are nil.
	Start Type = "Start"
	// DuringResponsibilityCheck can overrule whether the deployer is responsible.
	DuringResponsibilityCheck Type = "DuringResponsibilityCheck"
	// AfterResponsibilityCheck comes once the deployer is known to be responsible.
	AfterResponsibilityCheck Type = "AfterResponsibilityCheck"
	// ShouldReconcile can start a job for an item that needs none; it cannot stop one that is needed.
	ShouldReconcile Type = "ShouldReconcile"
	// BeforeAnyReconcile comes before each of the operations below.
	BeforeAnyReconcile Type = "BeforeAnyReconcile"
	// BeforeAbort comes before an abort.
	BeforeAbort Type = "BeforeAbort"
	// BeforeForceReconcile comes before a forced reconcile.
	BeforeForceReconcile Type = "BeforeForceReconcile"
	// BeforeDelete comes before a deletion.
	BeforeDelete Type = "BeforeDelete"
	// BeforeReconcile comes before an ordinary reconcile.
	BeforeReconcile Type = "BeforeReconcile"
	// End comes after the deployer has returned.
	End Type = "End"
)

// Result is what a hook function wants of the reconcile flow. A nil Result is no opinion.
type Result struct {
	// Requeue asks for another reconcile at once.
	Requeue bool
	// RequeueAfter asks for another reconcile after this time; zero for none.
	RequeueAfter time.Duration
	// AbortReconcile ends the reconcile after this point.
	AbortReconcile bool
}

// Func is a hook function. The result counts only if the error is nil. Target carries no credentials and is nil for an item
// without one.
type Func func(ctx context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, hookType Type) (*Result, error)

// Setup couples a function with the types that it is meant for.
type Setup struct {
	Func  Func
	Types []Type
}

// Hooks maps types to functions, which run in the order of their registration. It is filled while a deployer is created and
// not changed afterwards. The zero value can be read but not registered at; use make or a literal.
type Hooks map[Type][]Func

// RegisterHook appends f for each of the types and returns h for chaining. Without types it has no effect.
func (h Hooks) RegisterHook(f Func, types ...Type) Hooks {
	for _, t := range types {
		h[t] = append(h[t], f)
	}
	return h
}

// RegisterHookSetup registers the function of a Setup for its types and returns h for chaining.
func (h Hooks) RegisterHookSetup(setup Setup) Hooks {
	return h.RegisterHook(setup.Func, setup.Types...)
}
