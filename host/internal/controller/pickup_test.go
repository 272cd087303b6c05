package controller

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// newLateBench is newBench with a plugin that has LatePickUp and an item that has its finalizer.
func newLateBench(t *testing.T, answer answer) *bench {
	t.Helper()
	b := newBench(t, answer, func(item *v1alpha1.DeployItem) { item.Finalizers = []string{v1alpha1.Finalizer} })
	b.plugin.Capabilities.LatePickUp = true
	return b
}

// phases are those that the writes of a reconcile leave the item in; empty for the write of another object.
type phases []v1alpha1.DeployItemPhase

// TestWritesOfAJob: what a plugin with LatePickUp does decides how many writes of the status its job takes.
// Rule (plugin-authors.md#options): A plugin with `LatePickUp` changes nothing before the pick-up, one write with its
// provider status.
func TestWritesOfAJob(t *testing.T) {
	t.Parallel()
	save := func(document string) answer {
		return func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
			if err := o.SaveProviderStatus(ctx, []byte(document)); err != nil {
				return nil, err
			}
			return succeeded()
		}
	}
	for name, test := range map[string]struct {
		reason  string
		answer  answer
		prepare func(*bench)
		want    phases
	}{
		"saved":     {"the write that saves picks up", save(providerStatus), nil, phases{"Progressing", "Succeeded"}},
		"no save":   {"nothing has changed, so that one write tells all", done, nil, phases{"Succeeded"}},
		"picked up": {"an empty document only picks up", save(""), nil, phases{"Progressing", "Succeeded"}},
		"waits":     {"what it waits for tells that it is picked up", always(waits("the pod")), nil, phases{"Progressing"}},
		"fails":     {"so does an error", always(fails("No")), nil, phases{"Progressing"}},
		"crashes":   {"so does a crash", always(nil, plugin.ErrCrashed), nil, phases{"Progressing"}},
		"exports": {
			"the Secret changes after the pick-up",
			always(&plugin.Outcome{Succeeded: &plugin.Succeeded{Exports: []byte(`{"a":1}`)}}, nil), nil,
			phases{"Progressing", "", "Succeeded"},
		},
		"hook": {
			"a hook before the operation may change something", save(providerStatus),
			func(b *bench) {
				hook(b.plugin, func() (*sdkhook.Result, error) { return nil, nil }, sdkhook.BeforeAnyReconcile)
			},
			phases{"Init", "Progressing", "Succeeded"},
		},
		"no promise": {
			"a plugin without LatePickUp may change something before it saves", save(providerStatus),
			func(b *bench) { b.plugin.Capabilities.LatePickUp = false },
			phases{"Init", "Progressing", "Succeeded"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newLateBench(t, test.answer)
			if test.prepare != nil {
				test.prepare(b)
			}
			var found phases
			b.write = func(_ int, do func() error) error {
				before := b.read()
				err := do()
				phase := b.read().Status.Phase
				if b.read().ResourceVersion == before.ResourceVersion {
					phase = "" // of another object
				}
				found = append(found, phase)
				return err
			}
			jobID := b.setJob()
			b.reconcile(t.Context())
			if diff := cmp.Diff(test.want, found); diff != "" {
				t.Errorf("%s (-want +got):\n%s", test.reason, diff)
			}
			item := b.read()
			if picked := conditionOf(item, contract.ConditionPickedUp); picked == nil || picked.Message != jobID ||
				item.Status.LastReconcileTime.Before(item.Status.JobIDGenerationTime) {
				t.Errorf("Landscaper does not see the pick-up: %s", describe(item))
			}
		})
	}
}

// TestLostPickUp: when another client has changed the item, the plugin may change nothing, and nothing is written; then
// the item is decided on again.
// Rule (architecture.md#why-they-are-safe): A replica without the pick-up changes nothing.
func TestLostPickUp(t *testing.T) {
	var told error
	var b *bench
	meanwhile := func() { b.touch(b.item) }
	b = newLateBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		meanwhile()
		if told = o.SaveProviderStatus(ctx, []byte(providerStatus)); told != nil {
			outcome, err := fails(told.Error())
			outcome.ProviderStatus = []byte(providerStatus)
			return outcome, err
		}
		return succeeded()
	})
	b.setJob()
	if b.reconcile(t.Context()); told == nil || b.read().Status.Phase != "" || rawStatus(b.read()) != "" {
		t.Errorf("expected an error and no write, but found %v, %s", told, describe(b.read()))
	}
	meanwhile = func() {}
	if b.driveTo(v1alpha1.DeployItemPhaseSucceeded); len(b.calls) != 2 {
		t.Errorf("expected success with the second call, but found the calls %v", b.calls)
	}
}

// TestSlowPlanIsPickedUp: a call that goes on is picked up before it saves, so that Landscaper does not wait for it.
// Rule (deploy-items.md#jobs): A job is picked up during a plan of more than a second.
func TestSlowPlanIsPickedUp(t *testing.T) {
	var b *bench
	b = newLateBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if got := contract.WaitingFor(b.read()); got != "" {
			t.Errorf("the plugin has said nothing yet, but the status says %q", got)
		}
		o.Progress("ReadChart", "reading the chart")
		for b.read().Status.Phase == "" {
			if ctx.Err() != nil {
				return nil, errors.New("the call is cancelled")
			}
			b.clock.Step(stepInterval)
		}
		if got := reconciling(b.read()); got != "reading the chart" {
			return nil, fmt.Errorf("the status says %q", got)
		}
		return succeeds(ctx, plugin.Delete, o)
	})
	b.setJob()
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
}

// TestFinalizerRefused: a job whose item cannot get its finalizer is picked up, so that its time runs and ends it.
// Rule (deploy-items.md#jobs): A job is picked up, and its time runs, although its item cannot get its finalizer.
func TestFinalizerRefused(t *testing.T) {
	b := newLateBench(t, succeeds)
	b.patch(b.item, `{"metadata":{"finalizers":null}}`)
	b.write = func(n int, do func() error) error {
		if n == 1 {
			return errors.New("a webhook refuses it")
		}
		return do()
	}
	jobID := b.setJob()
	b.reconcile(t.Context())
	if c := conditionOf(b.read(), contract.ConditionPickedUp); c == nil || c.Message != jobID || len(b.calls) != 0 {
		t.Errorf("expected a job that is picked up and no call, but found %s, calls %v", describe(b.read()), b.calls)
	}
}

// TestOneEventPerChange: a job has one event if something has changed, that of the plugin if there is one.
// Rule (troubleshooting.md#reasons-of-events-and-conditions): A job without a change has no event.
func TestOneEventPerChange(t *testing.T) {
	status, tells := providerStatus, false
	b := newLateBench(t, func(_ context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		if tells {
			o.Event(false, "Installed", "revision 1")
		}
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}, ProviderStatus: []byte(status)}, nil
	})
	for _, step := range []struct {
		reason string
		before func()
		event  string
	}{
		{"the first job", func() {}, "Normal Succeeded"},
		{"nothing has changed", func() {}, ""},
		{
			"another provider status", func() { status = `{"apiVersion":"test.pergola.dev/v1","kind":"Status","revision":2}` },
			"Normal Succeeded",
		},
		{"another spec", func() { b.patch(b.item, `{"spec":{"updateOnChangeOnly":true}}`) }, "Normal Succeeded"},
		{"the plugin has told what has changed", func() {
			tells = true
			b.patch(b.item, `{"spec":{"updateOnChangeOnly":false}}`)
		}, "Normal Installed revision 1"},
	} {
		step.before()
		b.setJob()
		b.drive()
		recorded := b.recorded()
		if len(recorded) > 1 || !strings.HasPrefix(strings.Join(recorded, ""), step.event) ||
			(len(recorded) > 0) != (step.event != "") {
			t.Errorf("%s: expected the event %q, but found %q", step.reason, step.event, recorded)
		}
	}
}

// TestJobBehindASilentTarget: the time of a job runs whose own target keeps it waiting, be it queued before or not, and
// the status says so.
// Rule (host-configuration.md#workers): The time of a job runs while its own target keeps it waiting.
func TestJobBehindASilentTarget(t *testing.T) {
	for name, queued := range map[string]bool{"new": false, "queued before": true} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, succeeds, func(i *v1alpha1.DeployItem) {
				i.Spec.Target, i.Spec.Timeout = &v1alpha1.ObjectReference{Name: "far"}, "10m"
			})
			of := slots.Share{Namespace: b.item.Namespace, Target: "far"}
			b.slots.Acquire(anotherItem, of, slots.Running)
			jobID := b.setJob()
			if queued {
				b.clock.Step(queuedAfter)
				if b.reconcile(t.Context()); !contract.IsQueued(b.read()) {
					t.Fatalf("expected a queued job, but found %s", describe(b.read()))
				}
			}
			b.slots.SetAnswered(of, false)
			b.clock.Step(slotPoll)
			b.reconcile(t.Context())
			item := b.read()
			if contract.IsQueued(item) || !contract.IsUnderWay(item) ||
				!strings.Contains(reconciling(item), `the Target "far" to answer`) {
				t.Errorf("expected a job that waits for its target, but found %s: %s", describe(item), reconciling(item))
			}
			b.clock.Step(11 * time.Minute)
			b.reconcile(t.Context())
			if item = b.read(); item.Status.JobIDFinished != jobID || item.Status.LastError.Reason != "ProgressingTimeout" {
				t.Errorf("expected its time to be over, but found %s", describe(item))
			}
		})
	}
}

// TestAbortWithdrawsAnAcceptedOperation: the write of its job had failed, and no job follows the abort.
func TestAbortWithdrawsAnAcceptedOperation(t *testing.T) {
	b := newBench(t, succeeds)
	jobID := b.setJob()
	b.drive()
	accepted := b.n + 1
	b.write = func(n int, do func() error) error {
		if n == accepted+1 {
			return errors.New("no answer")
		}
		return do()
	}
	for _, operation := range []string{v1alpha1.OperationReconcile, v1alpha1.OperationAbort} {
		b.annotate(b.item, v1alpha1.OperationAnnotation, operation)
		b.reconcile(t.Context())
	}
	item := b.drive()
	if item.Status.JobID != jobID || len(b.calls) != 1 || item.Annotations[v1alpha1.OperationAnnotation] != "" {
		t.Errorf("expected no other job, but found the calls %v, %s", b.calls, describe(item))
	}
	if events := fmt.Sprint(b.recorded()); !strings.Contains(events, "withdrawn") {
		t.Errorf("expected an event about it, but found %s", events)
	}
}

// TestQueuedJobIsPickedUpInTime: a job that gets no slot is picked up when it has waited for a while, by one write. Its
// time does not run before it has a slot.
// Rule (host-configuration.md#workers): A job without a worker is picked up as queued after 30 seconds.
func TestQueuedJobIsPickedUpInTime(t *testing.T) {
	b := newBench(t, succeeds, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1s" })
	b.slots.Acquire(anotherItem, slots.Share{}, slots.Running)
	jobID := b.setJob()
	wait := b.reconcile(t.Context())
	if phase := b.read().Status.Phase; phase != "" || wait > queuedAfter || wait < queuedAfter-2*time.Second {
		t.Errorf("expected a job that waits for up to %s, but found phase %q, and %s", queuedAfter, phase, wait)
	}
	if b.memory.Last(client.ObjectKeyFromObject(b.item)).KeepsLock() {
		t.Error("the lock is kept from replicas that have a slot")
	}
	for range 3 {
		b.clock.Step(max(wait, time.Hour))
		b.reconcile(t.Context())
	}
	if item := b.read(); !contract.IsQueued(item) || b.n != 1 ||
		item.Status.LastReconcileTime.Before(item.Status.JobIDGenerationTime) {
		t.Errorf("expected a queued job after one write, but found %d, %s", b.n, describe(item))
	}
	b.slots.Release(anotherItem)
	b.expectSuccess(jobID)
}
