package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
}

func newHooked(t *testing.T, answer answer, types []sdkhook.Type, modify ...func(*v1alpha1.DeployItem)) *hooked {
	t.Helper()
	b := &hooked{
		results: map[sdkhook.Type]*sdkhook.Result{}, failing: map[sdkhook.Type]error{},
		seen: map[sdkhook.Type]*v1alpha1.DeployItem{}, targets: map[sdkhook.Type]*v1alpha1.Target{},
	}
	b.bench = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		b.pass("call " + string(op))
		return answer(ctx, op, o)
	}, modify...)
	for _, hookType := range types {
		b.plugin.Capabilities.HookTypes = append(b.plugin.Capabilities.HookTypes, string(hookType))
	}
	b.plugin.OnHooks = func(
		_ context.Context, hookType sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target,
	) ([]plugin.HookOutcome, error) {
		b.pass(string(hookType))
		b.seen[hookType], b.targets[hookType] = item.DeepCopy(), target
		if err := b.failing[hookType]; err != nil {
			return nil, err
		}
		return []plugin.HookOutcome{{}, {Result: b.results[hookType]}}, nil
	}
	return b
}

func done(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
	return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
}

var checks = []string{"Start", "DuringResponsibilityCheck", "AfterResponsibilityCheck", "ShouldReconcile"}

func TestHooksOfAnOperation(t *testing.T) {
	t.Parallel()
	job := func(b *hooked) { b.setJob() }
	ask := func(operation string) func(b *hooked) {
		return func(b *hooked) { b.annotate(b.item, v1alpha1.OperationAnnotation, operation) }
	}
	deletion := func(b *hooked) { b.drive(); b.remove(b.item); b.setJob() }
	abort := func(b *hooked) { b.setJob(); b.reconcile(b.t.Context()); ask(v1alpha1.OperationAbort)(b) }
	able := plugin.Capabilities{Abort: true, ForceReconcile: true}
	for name, tc := range map[string]struct {
		reason       string
		before       func(b *hooked)
		capabilities plugin.Capabilities
		want         string // after the checks
		phase        v1alpha1.DeployItemPhase
	}{
		"reconcile": {"a job", job, able, "BeforeReconcile, call Reconcile", v1alpha1.DeployItemPhaseSucceeded},
		"force-reconcile": {
			"a user insists", ask(v1alpha1.OperationForceReconcile), able,
			"BeforeForceReconcile, call ForceReconcile", v1alpha1.DeployItemPhaseSucceeded,
		},
		"force-reconcile of a deployer that has none": {
			"the hook is about what the user wants, the call about what the deployer can do",
			ask(v1alpha1.OperationForceReconcile), plugin.Capabilities{},
			"BeforeForceReconcile, call Reconcile", v1alpha1.DeployItemPhaseSucceeded,
		},
		"abort": {
			"a job that waits", abort, able, "BeforeAbort, call Abort", v1alpha1.DeployItemPhaseFailed,
		},
		"abort of a deployer that has none": {
			"a job that waits", abort, plugin.Capabilities{}, "BeforeAbort", v1alpha1.DeployItemPhaseFailed,
		},
		"delete": {"a deletion", deletion, able, "BeforeDelete, call Delete", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			outcome := done
			if strings.HasPrefix(name, "abort") {
				outcome = func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
					if op == plugin.Reconcile {
						return waits("it")
					}
					return done(ctx, op, o)
				}
			}
			b := newHooked(
				t, outcome, sdkhook.Types(), func(i *v1alpha1.DeployItem) { i.Finalizers = []string{v1alpha1.Finalizer} },
			)
			tc.capabilities.HookTypes = b.plugin.Capabilities.HookTypes
			b.plugin.Capabilities = tc.capabilities
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
	for name, tc := range map[string]struct {
		reason   string
		selected bool
		result   *sdkhook.Result
		works    bool
	}{
		"no opinion":               {reason: "the check decides", selected: true, works: true},
		"no opinion about others'": {reason: "the check decides", works: false},
		"not ours": {
			reason: "the hook overrules a check that says yes", selected: true, result: &sdkhook.Result{AbortReconcile: true},
		},
		"ours": {
			reason: "the hook overrules a check that says no", result: &sdkhook.Result{}, works: true,
		},
		"ours, as the check says":    {reason: "both agree", selected: true, result: &sdkhook.Result{}, works: true},
		"not ours, as the check too": {reason: "both agree", result: &sdkhook.Result{AbortReconcile: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newHooked(
				t, done, []sdkhook.Type{sdkhook.DuringResponsibilityCheck, sdkhook.AfterResponsibilityCheck},
				withTargetNamed("target"),
			)
			b.create(&v1alpha1.Target{
				ObjectMeta: metav1.ObjectMeta{Namespace: b.item.Namespace, Name: "target"},
				Spec: v1alpha1.TargetSpec{
					Type: "example.org/target", Configuration: &runtime.RawExtension{Raw: []byte(`{"password":"secret"}`)},
				},
			})
			if !tc.selected {
				b.selects("none")
			}
			b.results[sdkhook.DuringResponsibilityCheck] = tc.result
			b.setJob()
			before := b.read().ResourceVersion
			item := b.drive()
			if works := item.Status.Phase == v1alpha1.DeployItemPhaseSucceeded; works != tc.works {
				t.Errorf("%s: %s (errors %v)", tc.reason, describe(item), b.errs)
			}
			if !tc.works && item.ResourceVersion != before {
				t.Errorf("%s: the item was written", tc.reason)
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

// TestHooksEndAReconcile: what comes before the job is picked up leaves it as it is. Afterwards the job stays
// unfinished until its hooks let it go on. The user learns who holds the job up: by an event as long as nobody has
// picked it up, and by the condition then.
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
			heard := contract.WaitingFor(item) == want
			for len(b.events.Events) > 0 {
				heard = strings.Contains(<-b.events.Events, want) || heard
			}
			if !heard {
				t.Errorf("the user does not hear of it; the item waits for %q", contract.WaitingFor(item))
			}
			b.results[hookType] = nil
			b.clock.Step(7 * time.Second)
			if item := b.drive(); item.Status.JobIDFinished != jobID || item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
				t.Error(describe(item))
			}
		})
	}
}

// TestHooksHoldAJobUp: a hook that does not say when it is to be asked again holds the job up until its time is over;
// one that wants to be asked at once is asked a second later.
func TestHooksHoldAJobUp(t *testing.T) {
	t.Parallel()
	for requeue, next := range map[bool]time.Duration{true: time.Second, false: time.Minute} {
		b := newHooked(
			t, done, []sdkhook.Type{sdkhook.BeforeReconcile}, func(item *v1alpha1.DeployItem) { item.Spec.Timeout = "1m" },
		)
		b.results[sdkhook.BeforeReconcile] = &sdkhook.Result{AbortReconcile: true, Requeue: requeue}
		b.setJob()
		if wait := b.reconcile(t.Context()); wait > next+time.Second || wait < next-time.Second {
			t.Errorf("requeue %t: expected the next reconcile after %s, but found %s", requeue, next, wait)
		}
		if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseFailed || len(b.calls) != 0 {
			t.Errorf("requeue %t: %s, calls %v", requeue, describe(item), b.calls)
		}
	}
}

// TestErrorsOfHooks: nothing is done as if the hook had agreed.
func TestErrorsOfHooks(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for _, hookType := range sdkhook.Types() {
		if slices.Contains(
			[]sdkhook.Type{
				sdkhook.BeforeAbort, sdkhook.BeforeDelete, sdkhook.BeforeForceReconcile, sdkhook.ShouldReconcile, sdkhook.End,
			},
			hookType,
		) {
			continue // they are passed elsewhere, or cannot stop the job
		}
		t.Run(string(hookType), func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, done, []sdkhook.Type{hookType})
			b.failing[hookType] = broken
			jobID := b.setJob()
			for range 3 {
				b.clock.Step(b.reconcile(t.Context()))
			}
			item := b.read()
			if len(b.calls) != 0 || item.Status.JobIDFinished == jobID {
				t.Errorf("expected no call, but found %v, %s", b.calls, describe(item))
			}
			if before := strings.HasPrefix(string(hookType), "Before"); before != (item.Status.LastError != nil) {
				t.Errorf("expected an error in the status: %t, but found %v", before, item.Status.LastError)
			} else if before && (!strings.Contains(item.Status.LastError.Message, "broken") ||
				item.Status.LastError.Operation != string(hookType)) {
				t.Errorf("unexpected error: %v", item.Status.LastError)
			}
			b.failing[hookType] = nil
			b.clock.Step(time.Minute)
			if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.JobIDFinished != jobID {
				t.Errorf("%s (errors %v)", describe(item), b.errs)
			}
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
	waiting := always(waits("it"))
	for hookType, ofJob := range map[sdkhook.Type]bool{
		sdkhook.AfterResponsibilityCheck: false, sdkhook.ShouldReconcile: false, sdkhook.BeforeReconcile: true,
		sdkhook.End: true,
	} {
		t.Run(string(hookType), func(t *testing.T) {
			t.Parallel()
			b := newHooked(t, waiting, []sdkhook.Type{hookType}, withoutTimeout)
			b.failing[hookType] = plugin.ErrCrashed
			if ofJob {
				b.setJob()
			}
			for start := b.clock.Now(); b.clock.Since(start) < time.Hour; {
				b.clock.Step(max(b.reconcile(t.Context()), time.Second))
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

// TestHookOfAnotherPlugin: the hooks of a plugin that serves nothing run for the items of others, in order, and their
// results count together.
func TestHookOfAnotherPlugin(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.BeforeReconcile})
	other := &intaketest.Deployer{
		PluginName: "policy", Type: testType, Capabilities: plugin.Capabilities{HookTypes: []string{"BeforeReconcile"}},
	}
	var held bool
	other.OnHooks = func(
		context.Context, sdkhook.Type, *v1alpha1.DeployItem, *v1alpha1.Target,
	) ([]plugin.HookOutcome, error) {
		b.pass("policy")
		return []plugin.HookOutcome{{Result: &sdkhook.Result{AbortReconcile: held, RequeueAfter: time.Second}}}, nil
	}
	b.plugins.(*intaketest.Plugins).HooksOnly = []*intaketest.Deployer{other}
	held = true
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
				policy := &intaketest.Deployer{
					PluginName: "policy", Type: testType, Capabilities: plugin.Capabilities{HookTypes: []string{string(hookType)}},
				}
				policy.OnHooks = b.plugin.OnHooks
				b.plugins.(*intaketest.Plugins).HooksOnly = []*intaketest.Deployer{policy}
				b.failing[hookType] = err
				b.setJob()
				b.reconcile(t.Context())
				queue := &oneItemQueue{now: b.clock.Now}
				b.router.Attach("one", queue)
				if b.router.PluginsRun(map[string]bool{"policy": true}); !queue.isDue() {
					t.Error("the item is not woken")
				}
				b.failing[hookType] = nil
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
	b := newHooked(t, always(waits("it")),
		[]sdkhook.Type{sdkhook.DuringResponsibilityCheck}, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1m" })
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
