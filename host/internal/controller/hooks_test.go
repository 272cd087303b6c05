package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// hooked is a bench whose plugin has hooks of all types, or of some.
type hooked struct {
	*bench
	// results are what the hooks of a type return, and errs their errors; none without an entry.
	results map[sdkhook.Type]*sdkhook.Result
	failing map[sdkhook.Type]error
	// seen is the item as the hooks of a type have got it last.
	seen    map[sdkhook.Type]*v1alpha1.DeployItem
	targets map[sdkhook.Type]*v1alpha1.Target
	// resolved is the Target with its content, as the hooks of a type have got it last.
	resolved map[sdkhook.Type]*v1alpha1.ResolvedTarget
}

func newHooked(t *testing.T, answer answer, types []sdkhook.Type, modify ...func(*v1alpha1.DeployItem)) *hooked {
	t.Helper()
	b := &hooked{
		results: map[sdkhook.Type]*sdkhook.Result{}, failing: map[sdkhook.Type]error{},
		seen: map[sdkhook.Type]*v1alpha1.DeployItem{}, targets: map[sdkhook.Type]*v1alpha1.Target{},
		resolved: map[sdkhook.Type]*v1alpha1.ResolvedTarget{},
	}
	b.bench = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		b.pass("call " + string(op))
		return answer(ctx, op, o)
	}, modify...)
	for _, hookType := range types {
		b.plugin.Capabilities.HookTypes = append(b.plugin.Capabilities.HookTypes, string(hookType))
	}
	b.plugin.OnHooks = func(_ context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
		hookType := call.Type
		b.pass(string(hookType))
		b.seen[hookType], b.targets[hookType] = call.DeployItem.DeepCopy(), call.Target
		b.resolved[hookType] = call.Resolved
		if err := b.failing[hookType]; err != nil {
			return nil, err
		}
		return []plugin.HookOutcome{{}, {Result: b.results[hookType]}}, nil
	}
	return b
}

var checks = []string{"Start", "DuringResponsibilityCheck", "AfterResponsibilityCheck", "ShouldReconcile"}

// Rule (hooks.md#when-they-run): `Start` hooks get neither item nor Target.
func TestHooksOfAnOperation(t *testing.T) {
	t.Parallel()
	ask := func(operation string) func(b *hooked) {
		return func(b *hooked) { b.annotate(b.item, v1alpha1.OperationAnnotation, operation) }
	}
	force := ask(v1alpha1.OperationForceReconcile)
	abort := func(b *hooked) { b.setJob(); b.reconcile(b.t.Context()); ask(v1alpha1.OperationAbort)(b) }
	for name, tc := range map[string]struct {
		reason string
		before func(b *hooked)
		able   bool
		want   string                   // after the checks
		phase  v1alpha1.DeployItemPhase // empty: the item is gone
	}{
		// Rule (hooks.md#when-they-run): Hooks run in the order of the flow, and only one of the four types before
		// their operation.
		"reconcile": {
			"a job", func(b *hooked) { b.setJob() }, true, "BeforeReconcile, call Reconcile", v1alpha1.DeployItemPhaseSucceeded,
		},
		"force-reconcile": {
			"a user insists", force, true, "BeforeForceReconcile, call ForceReconcile", v1alpha1.DeployItemPhaseSucceeded,
		},
		"force-reconcile of a deployer that has none": {
			"the hook is about the user's wish, the call about the deployer's abilities", force, false,
			"BeforeForceReconcile, call Reconcile", v1alpha1.DeployItemPhaseSucceeded,
		},
		// Rule (hooks.md#when-they-run): `BeforeAbort` runs before an abort.
		"abort": {"a job that waits", abort, true, "BeforeAbort, call Abort", v1alpha1.DeployItemPhaseFailed},
		"abort of a deployer that has none": {
			"a job that waits", abort, false, "BeforeAbort", v1alpha1.DeployItemPhaseFailed,
		},
		// Rule (hooks.md#when-they-run): `BeforeDelete` runs before a deletion.
		"delete": {
			"a deletion", func(b *hooked) { b.drive(); b.remove(b.item); b.setJob() }, true, "BeforeDelete, call Delete", "",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := func(_ context.Context, op plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
				if op == plugin.Reconcile && strings.HasPrefix(name, "abort") {
					return waits("it")
				}
				return succeeded()
			}
			b := newHooked(t, outcome, sdkhook.Types(), withFinalizer)
			b.plugin.Capabilities.Abort, b.plugin.Capabilities.ForceReconcile = tc.able, tc.able
			tc.before(b)
			b.passed = nil
			item := b.drive()
			want := slices.Concat(checks, []string{"BeforeAnyReconcile"}, strings.Split(tc.want, ", "), []string{"End"})
			if item != nil { // it is asked whether there is more to do
				want = slices.Concat(want, checks)
			}
			b.expectPassed(tc.reason, want...)
			if item != nil && item.Status.Phase != tc.phase || item == nil && tc.phase != "" {
				t.Errorf("%s: %s", tc.reason, describe(item))
			}
			if b.seen[sdkhook.Start] != nil || b.targets[sdkhook.Start] != nil {
				t.Error("Start has got an item or a target")
			}
			for _, hookType := range []sdkhook.Type{sdkhook.AfterResponsibilityCheck, sdkhook.End} {
				if seen := b.seen[hookType]; seen == nil || seen.UID != b.item.UID {
					t.Errorf("%s has got the item %v", hookType, seen)
				}
			}
		})
	}
}

func TestHooksOverruleResponsibility(t *testing.T) {
	t.Parallel()
	yes, no := &sdkhook.Result{}, &sdkhook.Result{AbortReconcile: true}
	for name, tc := range map[string]struct {
		reason   string
		selected bool
		result   *sdkhook.Result
		works    bool
	}{
		"no opinion":               {"the check decides", true, nil, true},
		"no opinion about others'": {"the check decides", false, nil, false},
		// Rule (hooks.md#results): `DuringResponsibilityCheck` with `AbortReconcile: true` makes it not responsible.
		"not ours": {"the hook overrules a check that says yes", true, no, false},
		// Rule (hooks.md#results): `DuringResponsibilityCheck` with `AbortReconcile: false` makes the host responsible.
		"ours":                    {"the hook overrules a check that says no", false, yes, true},
		"ours, as the check says": {"both agree", true, yes, true},
		// Rule (hooks.md#when-they-run): `AfterResponsibilityCheck` runs only for items of this host.
		"not ours, as the check too": {"both agree", false, no, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			types := []sdkhook.Type{sdkhook.DuringResponsibilityCheck, sdkhook.AfterResponsibilityCheck}
			b := newHooked(t, done, types, withTargetNamed("target"))
			b.newTarget(b.item.Namespace, "target")
			if !tc.selected {
				b.selects("none")
			}
			b.results[sdkhook.DuringResponsibilityCheck] = tc.result
			b.setJob()
			before := b.read().ResourceVersion
			item := b.drive()
			if works := item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded; works != tc.works ||
				(item.ResourceVersion != before) != tc.works {
				t.Errorf("%s: %s (errors %v)", tc.reason, describe(item), b.errs)
			}
			if asked := slices.Contains(b.passed, string(sdkhook.AfterResponsibilityCheck)); asked != tc.works {
				t.Errorf("%s: expected AfterResponsibilityCheck to run: %t, but found %v", tc.reason, tc.works, b.passed)
			}
			if target := b.targets[sdkhook.DuringResponsibilityCheck]; target == nil || target.Spec.Configuration != nil ||
				target.Name != "target" {
				t.Errorf("unexpected target of the hook: %v", target)
			}
		})
	}
}

// Rule (hooks.md#when-they-run): Only a plugin with `sdk.HookTargets` gets the content of the Target, from
// `AfterResponsibilityCheck` on.
func TestTargetsOfHooks(t *testing.T) {
	t.Parallel()
	for _, asks := range []bool{true, false} {
		b := newHooked(t, done, sdkhook.Types(), withTargetNamed("target"))
		b.newTarget(b.item.Namespace, "target")
		b.plugin.Capabilities.HookTargets = asks
		b.setJob()
		b.drive()
		for _, hookType := range sdkhook.Types() {
			_, ran := b.resolved[hookType]
			early := hookType == sdkhook.Start || hookType == sdkhook.DuringResponsibilityCheck
			if got := b.resolved[hookType]; ran && (got != nil) != (asks && !early) ||
				got != nil && (got.Content != `{"password":"secret"}` || got.Target.Spec.Configuration != nil) {
				t.Errorf("asked %t: %s has got %v", asks, hookType, got)
			}
		}
		if len(b.resolved) < 6 {
			t.Errorf("expected the hooks of a job, but only these ran: %v", b.passed)
		}
	}
}

// TestHooksEndAReconcile: what comes before the job is picked up leaves it as it is. Afterwards the job stays
// unfinished until its hooks let it go on. The user learns the plugin that holds the job up: by an event before the
// pick-up, and by the condition then.
// Rule (hooks.md#results): `Start` and `AfterResponsibilityCheck` can end a reconcile, and the item stays as it is.
func TestHooksEndAReconcile(t *testing.T) {
	t.Parallel()
	for hookType, pickedUp := range map[sdkhook.Type]bool{
		sdkhook.Start: false, sdkhook.AfterResponsibilityCheck: false, sdkhook.BeforeAnyReconcile: true,
		sdkhook.BeforeReconcile: true,
	} {
		t.Run(string(hookType), func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, done, []sdkhook.Type{hookType})
			b.results[hookType] = &sdkhook.Result{AbortReconcile: true, RequeueAfter: 7 * time.Second}
			jobID := b.setJob()
			before := b.read().ResourceVersion
			if wait := b.reconcile(t.Context()); wait != 7*time.Second {
				t.Errorf("expected the next reconcile after 7s, but found %s", wait)
			}
			item := b.read()
			if len(b.calls) != 0 || (item.ResourceVersion == before) == pickedUp || item.Status.JobIDFinished == jobID {
				t.Errorf("expected a job that is held up, but found %s, calls %v", describe(item), b.calls)
			}
			want := fmt.Sprintf("a hook of type %s of the plugin one holds the job up; it is asked again after 7s", hookType)
			if contract.WaitingFor(item) != want && !strings.Contains(fmt.Sprint(b.recorded()), want) {
				t.Errorf("the user does not hear of it; the item waits for %q", contract.WaitingFor(item))
			}
			b.results[hookType] = nil
			b.clock.Step(7 * time.Second)
			b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
		})
	}
}

// TestHooksHoldAJobUp: a hook that does not say when it is to be asked again holds the job up until its time is over;
// one that wants to be asked at once is asked a second later.
// Rule (hooks.md#results): A `Before…` hook with `AbortReconcile` holds the job up until it lets it go on, or its time
// is over.
func TestHooksHoldAJobUp(t *testing.T) {
	t.Parallel()
	for requeue, next := range map[bool]time.Duration{true: time.Second, false: time.Minute} {
		b := newHooked(t, done, []sdkhook.Type{sdkhook.BeforeReconcile}, withTimeout("1m"))
		b.results[sdkhook.BeforeReconcile] = &sdkhook.Result{AbortReconcile: true, Requeue: requeue}
		b.setJob()
		if wait := b.reconcile(t.Context()); wait > next+time.Second || wait < next-time.Second {
			t.Errorf("requeue %t: expected the next reconcile after %s, but found %s", requeue, next, wait)
		}
		if b.driveTo(v1alpha1.DeployItemPhaseFailed); len(b.calls) != 0 {
			t.Errorf("requeue %t: calls %v", requeue, b.calls)
		}
	}
}

// TestErrorsOfHooks: nothing is done as if the hook had agreed.
func TestErrorsOfHooks(t *testing.T) {
	t.Parallel()
	// The others are passed elsewhere, or cannot stop the job.
	for _, hookType := range []sdkhook.Type{
		sdkhook.Start, sdkhook.DuringResponsibilityCheck, sdkhook.AfterResponsibilityCheck, sdkhook.BeforeAnyReconcile,
		sdkhook.BeforeReconcile,
	} {
		t.Run(string(hookType), func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, done, []sdkhook.Type{hookType})
			b.failing[hookType] = errors.New("broken")
			jobID := b.setJob()
			for range 3 {
				b.clock.Step(b.reconcile(t.Context()))
			}
			item := b.read()
			if len(b.calls) != 0 || item.Status.JobIDFinished == jobID {
				t.Errorf("expected no call, but found %v, %s", b.calls, describe(item))
			}
			e, pickedUp := item.Status.LastError, strings.HasPrefix(string(hookType), "Before")
			if (e != nil) != pickedUp ||
				pickedUp && (!strings.Contains(e.Message, "broken") || e.Operation != string(hookType)) {
				t.Errorf("expected an error in the status: %t, but found %v", pickedUp, e)
			}
			b.failing[hookType] = nil
			b.clock.Step(time.Minute)
			b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
		})
	}
}

// TestNoHookHoldsUpTheEnd: a job whose time is over ends, whatever its hooks are up to.
func TestNoHookHoldsUpTheEnd(t *testing.T) {
	t.Parallel()
	b := newHooked(t, always(waits("it")), sdkhook.Types())
	jobID := b.setJob()
	b.reconcile(t.Context())
	for _, hookType := range sdkhook.Types() {
		b.failing[hookType] = errors.New("broken")
	}
	b.clock.Step(time.Hour)
	b.passed = nil
	for range 3 {
		b.clock.Step(b.reconcile(t.Context()))
	}
	if item := b.read(); item.Status.Phase != v1alpha1.DeployItemPhaseFailed || item.Status.JobIDFinished != jobID {
		t.Errorf("%s (errors %v)", describe(item), b.errs)
	}
}

// TestPoisonInHooks: an item whose hooks kill a plugin does not take it away from the others.
func TestPoisonInHooks(t *testing.T) {
	t.Parallel()
	for hookType, ofJob := range map[sdkhook.Type]bool{
		sdkhook.AfterResponsibilityCheck: false, sdkhook.ShouldReconcile: false, sdkhook.BeforeReconcile: true,
		sdkhook.End: true,
	} {
		t.Run(string(hookType), func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, always(waits("it")), []sdkhook.Type{hookType}, withoutTimeout)
			b.failing[hookType] = plugin.ErrCrashed
			if ofJob {
				b.setJob()
			}
			for start := b.clock.Now(); b.clock.Since(start) < time.Hour; {
				wait := b.reconcile(t.Context())
				b.reconcile(t.Context()) // too early
				b.clock.Step(max(wait, time.Second))
			}
			crashes := len(slices.DeleteFunc(b.passed, func(s string) bool { return s != string(hookType) }))
			item := b.read()
			failed := item.Status.LastError != nil && item.Status.LastError.Reason == contract.ReasonPluginCrashed
			if failed != ofJob || ofJob && crashes != job.DefaultMaxCrashes || crashes > job.DefaultMaxCrashes+7 {
				t.Errorf("the plugin was killed %d times in an hour: %s", crashes, describe(item))
			}
		})
	}
}

// addPolicy adds a plugin that serves nothing, and has hooks of one type for the items of others.
func (b *hooked) addPolicy(hookType sdkhook.Type, run func() (*sdkhook.Result, error)) {
	policy := &intaketest.Deployer{PluginName: "policy", Type: testType}
	hook(policy, run, hookType)
	b.plugins.(*intaketest.Plugins).HooksOnly = []*intaketest.Deployer{policy}
}

// TestHookOfAnotherPlugin: the hooks of a plugin that serves nothing run for the items of others, in order, and their
// results count together.
// Rule (hooks.md#hooks-in-plugins): A plugin may have hooks for items of other plugins.
func TestHookOfAnotherPlugin(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.BeforeReconcile})
	held := true
	b.addPolicy(sdkhook.BeforeReconcile, func() (*sdkhook.Result, error) {
		b.pass("policy")
		return &sdkhook.Result{AbortReconcile: held, RequeueAfter: time.Second}, nil
	})
	b.setJob()
	b.clock.Step(b.reconcile(t.Context()))
	b.expectPassed("one of both holds the job up", "BeforeReconcile", "policy")
	held = false
	b.reconcile(t.Context())
	b.expectPassed("none does any more", "BeforeReconcile", "policy", "call Reconcile")
}

// TestItemsWhoseHooksWereMissedAreReconciled: when the plugin runs again, whether there was a job to note the error
// with or not.
func TestItemsWhoseHooksWereMissedAreReconciled(t *testing.T) {
	t.Parallel()
	for _, hookType := range []sdkhook.Type{sdkhook.AfterResponsibilityCheck, sdkhook.BeforeReconcile} {
		for _, err := range []error{plugin.ErrNotRunning, plugin.ErrCrashed} {
			t.Run(fmt.Sprint(hookType, " ", err), func(t *testing.T) {
				t.Parallel()
				b := newHooked(t, done, nil)
				b.addPolicy(hookType, func() (*sdkhook.Result, error) { return nil, err })
				b.setJob()
				b.reconcile(t.Context())
				queue := &oneItemQueue{now: b.clock.Now}
				b.router.Attach("one", queue)
				if b.router.PluginsRun(map[string]bool{"policy": true}); !queue.isDue() {
					t.Error("the item is not woken")
				}
				err = nil
				if b.reconcile(t.Context()); len(b.calls) != 1 {
					t.Errorf("calls %v, %s", b.calls, describe(b.read()))
				}
			})
		}
	}
}

// TestNotOursIsNotEndedHere: a job of another host is not ended here after its deadline if a hook says that the item is
// not ours, nor is the item reconciled again and again.
func TestNotOursIsNotEndedHere(t *testing.T) {
	t.Parallel()
	b := newHooked(t, always(waits("it")), []sdkhook.Type{sdkhook.DuringResponsibilityCheck}, withTimeout("1m"))
	b.set(func(p *parts) { p.options.Identity = "other" })
	b.setJob()
	b.reconcile(t.Context())
	b.set(func(p *parts) { p.options.Identity = "here" })
	b.memory.Forget(client.ObjectKeyFromObject(b.item))
	b.results[sdkhook.DuringResponsibilityCheck] = &sdkhook.Result{AbortReconcile: true}
	before := b.read()
	b.clock.Step(2 * time.Minute)
	wait := b.reconcile(t.Context())
	if after := b.read(); after.ResourceVersion != before.ResourceVersion || wait != 0 {
		t.Errorf("the item was written, or is reconciled again after %s: %s", wait, describe(after))
	}
}
