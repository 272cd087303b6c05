package controller

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// revision is a provider status that can be told from others.
func revision(n int) []byte {
	return fmt.Appendf(nil, `{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":%d}`, n)
}

// elsewhere is another host, which sets a job for the item and picks it up.
func (b *bench) elsewhere(changes ...func(*v1alpha1.DeployItem)) {
	b.t.Helper()
	item := b.read()
	contract.SetJob(item, "job-2", b.clock.Now())
	contract.Begin(item, false, v1alpha1.DeployerInformation{Identity: "there", Name: "one", Version: "v1"}, b.clock.Now())
	contract.Progress(item)
	for _, change := range changes {
		change(item)
	}
	if err := b.admin.Status().Update(b.t.Context(), item); err != nil {
		b.t.Fatal(err)
	}
}

func TestOutcomeIsThatOfOneJob(t *testing.T) {
	b := newBench(t, nil)
	b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		b.elsewhere()
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
	b.setJob()
	b.look(t.Context())
	if item := b.read(); item.Status.JobIDFinished == "job-2" || item.Status.Deployer.Identity != "there" {
		t.Errorf("another host's job was written to: %s", describe(item))
	}
}

func TestProviderStatusOfACancelledCall(t *testing.T) {
	cases := map[string]struct {
		reason string
		saved  []byte // by another host, meanwhile
		want   []byte
	}{
		"nothing newer": {reason: "what the plugin has created is not forgotten", want: revision(3)},
		"newer":         {reason: "another host knows more by now", saved: revision(2), want: revision(2)},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, nil)
			b.answer = func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				if err := o.SaveProviderStatus(ctx, revision(1)); err != nil {
					return fails(err.Error())
				}
				b.elsewhere(withProviderStatus(tc.saved))
				b.memory.changed(client.ObjectKeyFromObject(b.item))
				<-ctx.Done()
				return &plugin.Outcome{Errors: []plugin.Error{{Message: "stopped"}}, ProviderStatus: revision(3)}, nil
			}
			b.setJob()
			b.look(t.Context())
			if diff := cmp.Diff(string(tc.want), rawStatus(b.read())); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProviderStatusOfACallThatComesTooLate(t *testing.T) {
	b := newBench(t, nil)
	called := false
	b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		called = true
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}, ProviderStatus: revision(1)}, nil
	}
	b.write = func(_ int, do func() error) error {
		if called {
			called = false
			b.setJob() // the new job comes a moment before the final write
		}
		return do()
	}
	b.setJob()
	b.look(t.Context())
	if got := rawStatus(b.read()); got != string(revision(1)) {
		t.Errorf("what the plugin has reported is lost: found %q, %s", got, describe(b.read()))
	}
}

// selectsZone makes a reconciler that of a host which is meant for the Targets of a zone.
func selectsZone(t *testing.T, r *reconciler, zone string) {
	t.Helper()
	selectors, errs := responsibility.Compile([]v1alpha1.TargetSelector{{
		Labels: []v1alpha1.Requirement{{Key: "zone", Operator: v1alpha1.RequirementEquals, Values: []string{zone}}},
	}}, nil)
	if errs != nil {
		t.Fatal(errs)
	}
	r.selectors = selectors
}

func (a *api) moveToZone(target *v1alpha1.Target, zone string) {
	a.t.Helper()
	patch := fmt.Sprintf(`{"metadata":{"labels":{"zone":%q}}}`, zone)
	if err := a.admin.Patch(a.t.Context(), target, client.RawPatch(types.MergePatchType, []byte(patch))); err != nil {
		a.t.Fatal(err)
	}
}

// TestTargetMovesToAnotherHost: the item of a Target that is selected by another host now is that host's, and the
// call that is still under way here does no harm.
func TestTargetMovesToAnotherHost(t *testing.T) {
	waiting := func() (*plugin.Outcome, error) { return waits("something") }
	b := newBench(t, answers(waiting), withTargetNamed("target"), func(i *v1alpha1.DeployItem) { i.Spec.Timeout = v1alpha1.NoDuration })
	target := b.newTarget(b.item.Namespace, "target")
	b.moveToZone(target, "a")
	selectsZone(t, b.reconciler, "a")
	there := *b.reconciler
	there.identity, there.memory, there.slots = "there", newMemory(), newSlots(1, time.Now)
	selectsZone(t, &there, "b")
	lookThere := func(ctx context.Context) {
		if _, err := there.Reconcile(ctx, reconcile.Request{NamespacedName: keyOf(b.item)}); err != nil {
			t.Error(err)
		}
	}
	b.setJob()
	b.clock.Step(b.look(t.Context()))
	cancelled := false
	b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		b.moveToZone(target, "b")
		b.answer = answers(waiting)
		lookThere(t.Context())
		b.memory.changed(keyOf(b.item)) // the other host's pick-up is an event
		<-ctx.Done()
		cancelled = true
		return fails("stopped")
	}
	b.look(t.Context())
	item := b.read()
	if !cancelled || item.Status.Deployer.Identity != "there" || item.Status.LastError != nil {
		t.Errorf("expected the job to be that of the other host alone, but found %s of %s", describe(item), item.Status.Deployer.Identity)
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	if b.drive(); b.read().Annotations[v1alpha1.OperationAnnotation] == "" {
		t.Error("the host that is not meant for the item has carried out an operation on it")
	}
}

// TestLandscaperTakesOurJobAway: a Landscaper whose execution still runs answers each job of ours with its own, which
// is finished.
func TestLandscaperTakesOurJobAway(t *testing.T) {
	b := newBench(t, succeeds)
	landscapers := b.setJob()
	b.drive()
	b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		b.patchStatus(b.item, fmt.Sprintf(`{"jobID":%q}`, landscapers))
		b.memory.changed(keyOf(b.item))
		<-ctx.Done()
		return fails("stopped")
	}
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.drive()
	item := expectPhase(t, b, v1alpha1.DeployItemPhaseFailed)
	if item.Status.LastError.Reason != "JobReplaced" || len(b.calls) != 2 {
		t.Errorf("expected one try that ends, but found %s, calls %v", describe(item), b.calls)
	}
	// And again when ours has succeeded before.
	b.answer = succeeds
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	b.drive()
	b.setJob()
	b.drive()
	calls := len(b.calls)
	for range 3 {
		b.patchStatus(b.item, fmt.Sprintf(`{"jobID":%q,"jobIDGenerationTime":%q}`, landscapers, b.clock.Now().UTC().Format(time.RFC3339)))
		b.drive()
	}
	if got := len(b.calls) - calls; got > 3 {
		t.Errorf("an operation was carried out again: %d calls for three jobs", got)
	}
}

func TestTurnAfterAWakeUp(t *testing.T) {
	b := newBench(t, answers(func() (*plugin.Outcome, error) {
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "something"}}, nil
	}))
	b.setJob()
	b.clock.Step(b.look(t.Context()))
	b.slots.take(slotKey(1), underWay) // another item is in its call
	b.look(t.Context())                // into the line
	b.slots.giveBack()
	b.router.turn(b.name, b.slots.settle(slotKey(1), false))
	b.router.WakeUp(b.name, b.item.Namespace, b.item.Name) // right after the turn
	calls := len(b.calls)
	if wait := b.look(t.Context()); len(b.calls) == calls {
		t.Errorf("it was the item's turn, but it waits for %s", wait)
	}
}
