// Package hook lets a deployer run functions of its own at fixed points of the host's reconcile flow.
//
// The functions of a type run in each reconcile of an item, not once per job: a job with several calls of the deployer,
// because it waits for something or after an error, is reconciled several times. They must be quick, and they may run
// for several items at the same time.
//
// An error counts as no result. Its effect depends on the type, and docs/hooks.md#errors describes it: only at a Before
// type it counts like an error of the deployer, and may end the job. Of an sdk.Error, codes, reason and text count.
package hook

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Type is a point of the reconcile flow.
type Type string

// The points of the reconcile flow, in their order. Of the four Before types of one operation, one comes in each
// reconcile.
const (
	// Start is the very beginning. Deploy item and Target are nil.
	Start Type = "Start"
	// DuringResponsibilityCheck overrules whether the deployer is responsible, both ways: AbortReconcile false makes
	// it responsible, true makes it not.
	DuringResponsibilityCheck Type = "DuringResponsibilityCheck"
	// AfterResponsibilityCheck comes once the deployer is known to be responsible.
	AfterResponsibilityCheck Type = "AfterResponsibilityCheck"
	// ShouldReconcile decides about an item that needs no job: AbortReconcile false enforces a job of its own for it. A
	// needed job cannot be stopped; true then has no effect. For an idle item it runs once, and again when a result
	// requeues, and when the item's spec, its status or an annotation with a domain ending in
	// ".extensions.landscaper.gardener.cloud" changes.
	ShouldReconcile Type = "ShouldReconcile"
	// BeforeAnyReconcile comes before each of the operations below. Where a Before type aborts, the operation is not
	// carried out and the job stays unfinished. It is tried again when the result requeues and when something
	// changes; otherwise the job ends by its timeout.
	BeforeAnyReconcile Type = "BeforeAnyReconcile"
	// BeforeAbort comes before an abort.
	BeforeAbort Type = "BeforeAbort"
	// BeforeForceReconcile comes before a forced reconcile.
	BeforeForceReconcile Type = "BeforeForceReconcile"
	// BeforeDelete comes before a deletion.
	BeforeDelete Type = "BeforeDelete"
	// BeforeReconcile comes before an ordinary reconcile.
	BeforeReconcile Type = "BeforeReconcile"
	// End comes after the deployer has returned. It does not come if the reconcile was aborted before.
	End Type = "End"
)

// ConditionStarted names, in its message, the last job set by the host itself.
const ConditionStarted v1alpha1.ConditionType = "Started"

// ScheduleField is the field of a provider configuration with the schedule, see sdk.ScheduleInConfig.
const ScheduleField = "continuousReconcile"

// ReasonStartedByHook is the reason of ConditionStarted for a job asked for by hooks of type ShouldReconcile.
const ReasonStartedByHook = "StartedByHook"

// ConditionNextTry is, without a Landscaper, True after a failed job with another one planned, and False during that
// job; see TryOf.
const ConditionNextTry v1alpha1.ConditionType = "NextTry"

// tryMessage is the message of ConditionNextTry during a try.
const tryMessage = "job %s is try %d of job %s"

// TryMessage is the message of ConditionNextTry for a job as a numbered try of the first one.
func TryMessage(job string, number int, first string) string {
	return fmt.Sprintf(tryMessage, job, number, first)
}

// TryOf returns the number of an item's job as a try of a failed one, and that one; not ok for any other job. A job of
// another spec is no try.
func TryOf(item *v1alpha1.DeployItem) (number int, first string, ok bool) {
	status := &item.Status
	i := slices.IndexFunc(status.Conditions, func(c v1alpha1.Condition) bool { return c.Type == ConditionNextTry })
	if i < 0 || status.Conditions[i].Status == v1alpha1.ConditionTrue || item.Generation != status.ObservedGeneration {
		return 0, "", false
	}
	var job string
	_, err := fmt.Sscanf(status.Conditions[i].Message, tryMessage, &job, &number, &first)
	return number, first, err == nil && job == status.JobID && number > 0
}

// FirstJob returns the job that an item's job tries again, or that job itself if it is no try. What must not be
// repeated after a failure, such as a migration, is to be recorded with this job.
func FirstJob(item *v1alpha1.DeployItem) string {
	if _, first, ok := TryOf(item); ok {
		return first
	}
	return item.Status.JobID
}

// AskedFor reports whether the job of an item was set because hooks of type ShouldReconcile have asked for it, such as
// a schedule, and not for a user. A job set by Landscaper is a user's.
func AskedFor(item *v1alpha1.DeployItem) bool {
	return slices.ContainsFunc(item.Status.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == ConditionStarted && c.Reason == ReasonStartedByHook && c.Message == item.Status.JobID
	})
}

// Result is a hook function's opinion about the reconcile flow. A nil Result is no opinion; the zero value is one, and
// enforces for the two checks. Aggregate makes one of the results of several functions.
type Result struct {
	// Requeue asks for another reconcile of the item at once.
	Requeue bool
	// RequeueAfter asks for another reconcile of the item after this time; zero for none.
	RequeueAfter time.Duration
	// AbortReconcile ends the reconcile after this point; for the two checks see DuringResponsibilityCheck and
	// ShouldReconcile.
	AbortReconcile bool
}

// Func is a hook function. The result counts only if the error is nil. Target carries no content, hence no credentials,
// and is nil for an item without one. It must change neither item nor Target. ctx ends when the host no longer waits
// for the function.
type Func func(ctx context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, hookType Type) (*Result, error)

// Setup couples a function with its types.
type Setup struct {
	Func  Func
	Types []Type
}

// Hooks maps types to functions, in the order of their registration and execution. It is filled while a deployer is
// created and not changed afterwards. The zero value can be read but not registered at; use make or a literal.
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
