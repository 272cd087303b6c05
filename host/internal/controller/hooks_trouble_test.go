package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/await"
)

// TestHooksChangeWhileAJobIsWorkedOn is for the race detector: who wakes jobs does not read what their workers write.
func TestHooksChangeWhileAJobIsWorkedOn(t *testing.T) {
	t.Parallel()
	b := newBench(t, succeeds)
	stop := make(chan struct{})
	var waker sync.WaitGroup
	waker.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				b.router.hooksMended([]v1alpha1.DeployItemType{testType})
			}
		}
	})
	jobID := b.setJob()
	b.expectSuccess(jobID)
	close(stop)
	waker.Wait()
}

// TestJitterIsNotBegunAnew: looks between the time at which a job is due and the one at which it begins do not move
// that.
func TestJitterIsNotBegunAnew(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.due(time.Hour)
	b.setJob()
	b.look(t.Context())
	b.schedule.jitter = time.Hour
	offset := b.schedule.offset(b.read())
	b.look(t.Context())
	for start := b.clock.Now(); len(b.calls) == 1; {
		b.clock.Step(offset*9/10 + time.Second)
		b.touch(b.item)
		b.look(t.Context())
		if b.clock.Since(start) > 48*time.Hour {
			t.Fatalf("an item that is due each hour and touched every %s was not reconciled in two days", offset*9/10)
		}
	}
}

// TestJitterOfAnItemThatIsPolled: that another hook wants the item to be looked at does not have its job begin earlier.
func TestJitterOfAnItemThatIsPolled(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile, sdkhook.AfterResponsibilityCheck})
	b.due(time.Hour)
	scheduled := b.plugin.hooks
	b.plugin.hooks = func(ctx context.Context, t sdkhook.Type, item *v1alpha1.DeployItem, target *v1alpha1.Target) ([]plugin.HookOutcome, error) {
		if t == sdkhook.AfterResponsibilityCheck {
			return []plugin.HookOutcome{{Result: &sdkhook.Result{RequeueAfter: time.Minute}}}, nil
		}
		return scheduled(ctx, t, item, target)
	}
	b.setJob()
	b.look(t.Context())
	b.schedule.jitter = 10 * time.Hour
	offset, began := b.schedule.offset(b.read()), b.read().Status.LastReconcileTime.Time
	for len(b.calls) == 1 {
		b.clock.Step(b.look(t.Context()))
	}
	if late := b.clock.Since(began.Add(time.Hour)); late < offset-time.Second || late > offset+2*time.Minute {
		t.Errorf("expected a job %s after it was due, but found %s", offset, late)
	}
}

// TestSpecChangesWhileAnHTTPHookIsAsked: the plugin does not get children of another spec than the item's.
func TestSpecChangesWhileAnHTTPHookIsAsked(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	child := func(generation int64, label string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"%s},"data":{"n":"%d"}}`, label, generation)
	}
	var rendered int64
	b.plugin.render = func(_ context.Context, c plugin.Call) (*plugin.Rendered, error) {
		rendered = c.DeployItem.Generation
		return &plugin.Rendered{Children: []sdk.Child{{Name: "manifests[0]", Object: json.RawMessage(child(rendered, ""))}}}, nil
	}
	change := sync.OnceFunc(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":{"apiVersion":"x/v1","kind":"X","n":2}}}`))
		if err := b.admin.Patch(context.WithoutCancel(t.Context()), b.item.DeepCopy(), patch); err != nil {
			t.Error(err)
		}
	})
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		change()
		_, _ = fmt.Fprintf(w, `{"children":{"configmap":%s}}`, child(rendered, `,"labels":{"x":"y"}`))
	}
	calls := 0
	b.plugin.call = func(_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer) (*plugin.Outcome, error) {
		if calls++; c.DeployItem.Generation != rendered {
			t.Errorf("the item is of generation %d, and its children of generation %d", c.DeployItem.Generation, rendered)
		}
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
	b.setJob()
	if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || calls != 1 {
		t.Errorf("%s after %d calls", describe(item), calls)
	}
}

// TestPoisonInEndHooks: they count as crashes of the job that they belong to.
func TestPoisonInEndHooks(t *testing.T) {
	t.Parallel()
	b := newHooked(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return waits("it") },
		[]sdkhook.Type{sdkhook.End}, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration })
	b.failing[sdkhook.End] = plugin.ErrCrashed
	b.setJob()
	for start := b.clock.Now(); b.clock.Since(start) < time.Hour; {
		b.clock.Step(max(b.look(t.Context()), time.Minute))
	}
	ends := slices.DeleteFunc(b.passed, func(s string) bool { return s != "End" })
	if item := b.read(); len(ends) != defaultMaxCrashes || item.Status.Phase != v1alpha1.DeployItemPhaseFailed {
		t.Errorf("the plugin was killed %d times in an hour: %s", len(ends), describe(item))
	}
}

// TestAnItemIsLeftAloneWhoseHooksKill: changes of it do not bring it back, and its job ends in time.
func TestAnItemIsLeftAloneWhoseHooksKill(t *testing.T) {
	t.Parallel()
	b := newHooked(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return waits("it") },
		[]sdkhook.Type{sdkhook.AfterResponsibilityCheck}, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1m" })
	b.setJob()
	b.look(t.Context())
	b.failing[sdkhook.AfterResponsibilityCheck] = plugin.ErrCrashed
	var wait time.Duration
	for range defaultMaxCrashes {
		b.clock.Step(time.Second)
		b.touch(b.item)
		wait = b.look(t.Context())
	}
	if wait > time.Minute {
		t.Errorf("the job has a minute, but it is looked at after %s", wait)
	}
	b.passed = nil
	for range 5 {
		b.touch(b.item)
		b.look(t.Context())
	}
	b.expectPassed("it is left alone")
	b.clock.Step(time.Minute)
	if b.look(t.Context()); b.read().Status.Phase != v1alpha1.DeployItemPhaseFailed {
		t.Error(describe(b.read()))
	}
}

// TestPoisonInTheHooksOfANeededJob: a crash of a hook that cannot stop the job counts all the same.
func TestPoisonInTheHooksOfANeededJob(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.failing[sdkhook.ShouldReconcile] = plugin.ErrCrashed
	b.setJob()
	for range defaultMaxCrashes {
		b.clock.Step(time.Second)
		b.look(t.Context())
	}
	b.passed = nil
	b.router.hooksMended([]v1alpha1.DeployItemType{testType}) // the plugin runs again
	b.touch(b.item)
	b.look(t.Context())
	b.expectPassed("it is left alone")
	told := false
	for len(b.events.Events) > 0 {
		told = strings.Contains(<-b.events.Events, "it is left alone for") || told
	}
	if !told {
		t.Error("nobody is told")
	}
}

// TestItemsWhoseHooksWereMissedAreWoken: when the plugin runs again, whether there was a job to note the error with
// or not.
func TestItemsWhoseHooksWereMissedAreWoken(t *testing.T) {
	t.Parallel()
	for _, hookType := range []sdkhook.Type{sdkhook.AfterResponsibilityCheck, sdkhook.BeforeReconcile} {
		for _, err := range []error{plugin.ErrNotRunning, plugin.ErrCrashed} {
			t.Run(fmt.Sprint(hookType, " ", err), func(t *testing.T) {
				t.Parallel()
				b := newHooked(t, done, nil)
				policy := &fakeDeployer{name: "policy", itemType: testType, capabilities: plugin.Capabilities{HookTypes: []string{string(hookType)}}}
				policy.hooks = b.plugin.hooks
				b.plugins.(*fakePlugins).hooking = []*fakeDeployer{policy}
				b.failing[hookType] = err
				b.setJob()
				b.look(t.Context())
				if woken := b.memory.hooksMended([]v1alpha1.DeployItemType{testType}, b.clock.Now()); woken[keyOf(b.item)] != "one" {
					t.Errorf("the item is not woken, but %v", woken)
				}
				b.failing[hookType] = nil
				if b.look(t.Context()); len(b.calls) != 1 {
					t.Errorf("calls %v, %s", b.calls, describe(b.read()))
				}
			})
		}
	}
}

// TestHooksThatDoNotRunAreAskedMoreAndMoreSeldom: thousands of items at rest would keep the workers busy otherwise,
// as long as a plugin does not run.
func TestHooksThatDoNotRunAreAskedMoreAndMoreSeldom(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.setJob()
	b.drive()
	b.failing[sdkhook.ShouldReconcile] = plugin.ErrNotRunning
	b.touch(b.item)
	var pauses []time.Duration
	for range 8 {
		pauses = append(pauses, b.look(t.Context()))
		b.clock.Step(pauses[len(pauses)-1])
	}
	want := []time.Duration{
		time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 32 * time.Second, time.Minute, time.Minute,
	}
	if !slices.Equal(pauses, want) || len(b.errs) > 0 {
		t.Errorf("expected %v, but found %v, errors %v", want, pauses, b.errs)
	}
	delete(b.failing, sdkhook.ShouldReconcile)
	if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Error(describe(item))
	}
}

// TestUsersSeeWhoHoldsTheirJobUp: by an event as long as nobody has picked the job up, and by the condition afterwards.
func TestUsersSeeWhoHoldsTheirJobUp(t *testing.T) {
	t.Parallel()
	for _, hookType := range []sdkhook.Type{sdkhook.Start, sdkhook.AfterResponsibilityCheck, sdkhook.BeforeReconcile} {
		b := newHooked(t, done, []sdkhook.Type{hookType})
		b.results[hookType] = &sdkhook.Result{AbortReconcile: true, RequeueAfter: time.Minute}
		b.setJob()
		b.look(t.Context())
		want := fmt.Sprintf("a hook of type %s of the plugin one holds the job up; it is asked again after 1m0s", hookType)
		told := contract.WaitingFor(b.read()) == want
		for len(b.events.Events) > 0 {
			told = strings.Contains(<-b.events.Events, want) || told
		}
		if !told {
			t.Errorf("%s: the user is not told; the item waits for %q", hookType, contract.WaitingFor(b.read()))
		}
	}
}

// TestADeletionThatLeavesEverythingBehindIsTriedOnce: one that its hook does not agree to ends, and begins anew only
// when somebody wants that.
func TestADeletionThatLeavesEverythingBehindIsTriedOnce(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookFinalize)
	b.setJob()
	b.drive()
	b.annotate(b.item, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	b.remove(b.item)
	b.setJob()
	b.passed = nil
	b.fails("true", "")
	item := b.drive()
	if item == nil || item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed {
		t.Fatal(describe(item))
	}
	b.expectPassed("the hook does not agree for good", "finalize")
	b.serve = nil
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	if item := b.drive(); item != nil {
		t.Error(describe(item))
	}
	b.expectPassed("somebody asks for another try", "finalize")
}

// notReadyError is the error about a hook of some phases.
type notReadyError []v1alpha1.HookCapability

func (notReadyError) Error() string { return "no such Service" }

func (n notReadyError) Concerns(phase v1alpha1.HookCapability) bool { return slices.Contains(n, phase) }

// TestHTTPHookThatCannotBeCalledInAnotherPhase: it stands in the way of those phases alone that it is called in.
func TestHTTPHookThatCannotBeCalledInAnotherPhase(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.setJob()
	b.drive()
	b.passed = nil
	b.registered = notReadyError{v1alpha1.HookPreReconcile}
	b.remove(b.item)
	b.setJob()
	if item := b.drive(); item != nil {
		t.Error(describe(item))
	}
	b.expectPassed("the hook is not called for deletions", "call Delete")

	b = newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	b.registered = notReadyError{v1alpha1.HookPreReconcile}
	b.setJob()
	b.look(t.Context())
	b.expectPassed("it is called for this")
}

// TestHooksThatComeWhilePluginsBeginToServe are asked about items that were looked at before.
func TestHooksThatComeWhilePluginsBeginToServe(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	item := a.newItemAs(a.newNamespace(), "item", finished, func(item *v1alpha1.DeployItem) {
		item.Spec.Type, item.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	})
	one := &fakeDeployer{name: "one", itemType: itemType}
	asked := make(chan struct{}, 100)
	two := &fakeDeployer{name: "two", itemType: itemType, capabilities: plugin.Capabilities{HookTypes: []string{"ShouldReconcile"}}}
	two.hooks = func(context.Context, sdkhook.Type, *v1alpha1.DeployItem, *v1alpha1.Target) ([]plugin.HookOutcome, error) {
		asked <- struct{}{}
		return nil, nil
	}
	plugins := &fakePlugins{}
	c := a.startController(plugins)
	c.onServe = func(context.Context, []v1alpha1.DeployItemType) error {
		for c.memory.previous(keyOf(item), item.UID).uid == "" {
			time.Sleep(time.Millisecond)
		}
		plugins.change(func(p *fakePlugins) { p.hooking = append(p.hooking, two) })
		c.Changed()
		return nil
	}
	plugins.change(func(p *fakePlugins) { p.serving = append(p.serving, one) })
	c.Changed()
	select {
	case <-asked:
	case <-time.After(30 * time.Second):
		t.Error("the hooks were never asked about the item")
	}
}

// TestNotOursIsNotEndedHere: a job of another host's is not ended here, whatever its time, if a hook says that the
// item is not ours.
func TestNotOursIsNotEndedHere(t *testing.T) {
	t.Parallel()
	b := newHooked(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return waits("it") },
		[]sdkhook.Type{sdkhook.DuringResponsibilityCheck}, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1m" })
	b.identity = "other"
	b.setJob()
	b.look(t.Context())
	b.identity = "here"
	b.memory.forget(keyOf(b.item))
	b.results[sdkhook.DuringResponsibilityCheck] = &sdkhook.Result{AbortReconcile: true}
	before := b.read()
	b.clock.Step(2 * time.Minute)
	b.look(t.Context())
	if after := b.read(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was written: %s", describe(after))
	}
}

// TestRebuiltHooksAreAskedAgain: a build that says another thing is asked, although its version is the same.
func TestRebuiltHooksAreAskedAgain(t *testing.T) {
	t.Parallel()
	b := newHooked(t, done, []sdkhook.Type{sdkhook.ShouldReconcile})
	b.setJob()
	b.drive()
	b.passed = nil
	b.plugin.build = "2"
	b.look(t.Context())
	b.expectPassed("it may say something else", "ShouldReconcile")
	b.look(t.Context())
	b.expectPassed("it has been asked")
}

// TestDeletionsThatWaitForTheirHooks take no more workers than calls do, so that new jobs are picked up.
func TestDeletionsThatWaitForTheirHooks(t *testing.T) {
	a, itemType := newServerAPI(t), newType()
	namespace := a.newNamespace()
	answer := make(chan struct{})
	b := newHookedByHTTP(t, nil, v1alpha1.HookFinalize)
	b.serve = func(http.ResponseWriter, *http.Request) { <-answer }
	one := &fakeDeployer{name: "one", itemType: itemType}
	ofType := func(item *v1alpha1.DeployItem) {
		item.Spec.Type, item.Annotations[v1alpha1.DeployerTypeAnnotation] = itemType, string(itemType)
	}
	a.startController(&fakePlugins{serving: []*fakeDeployer{one}}, func(o *Options) { o.HTTPHooks = known{b.hook} })
	t.Cleanup(func() { close(answer) })
	for i := range 2 + pickUpWorkers {
		item := a.newItemAs(namespace, fmt.Sprint("leave-", i), "", func(item *v1alpha1.DeployItem) {
			ofType(item)
			item.Finalizers = []string{v1alpha1.Finalizer}
			item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] = "true"
		})
		a.remove(item)
		a.setJob(item, time.Now())
	}
	item := a.newItemAs(namespace, "other", "", ofType)
	a.setJob(item, time.Now())
	// The hook's own timeout is longer.
	await.For(t.Context(), t, time.Minute, "a new job to be picked up while deletions wait for their hooks", func(ctx context.Context) (string, error) {
		fresh := &v1alpha1.DeployItem{}
		if err := a.admin.Get(ctx, client.ObjectKeyFromObject(item), fresh); err != nil || fresh.Status.Phase != "" {
			return "", err
		}
		return "it has no phase", nil
	})
}

// known has one hook for all types.
type known struct{ hook *httphook.Hook }

func (k known) For(v1alpha1.DeployItemType) (*httphook.Hook, error) { return k.hook, nil }

func (k known) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}
