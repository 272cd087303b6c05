package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// crashes is a plugin that dies in each of its calls.
func crashes(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
	return nil, plugin.ErrCrashed
}

// reconciling is the message of the condition of that name.
func reconciling(item *v1alpha1.DeployItem) string {
	if c := conditionOf(item, contract.ConditionReconciling); c != nil {
		return c.Message
	}
	return ""
}

// TestPoisonItem: a job whose calls the plugin dies in ends with the third, whatever is called.
func TestPoisonItem(t *testing.T) {
	failed, deleteFailed := v1alpha1.DeployItemPhaseFailed, v1alpha1.DeployItemPhaseDeleteFailed
	for name, tc := range map[string]struct {
		reason     string
		phase      v1alpha1.DeployItemPhase
		why, calls string
		says       []string
	}{
		// Rule (SECURITY.md#authors-of-items): An item fails after its third crash of the plugin.
		"reconciled": {
			"it has another try with another job", failed, contract.ReasonPluginCrashed, "Reconcile Reconcile Reconcile",
			[]string{`the plugin "one"`, "3 times", "in the host's log", "A new job"},
		},
		// Rule (deploy-items.md#deleting): The item stays after a failed uninstallation, with phase `DeleteFailed`.
		"deleted": {
			"it can also go without what it has deployed", deleteFailed, contract.ReasonPluginCrashed, "Delete Delete Delete",
			[]string{`the plugin "one"`, "3 times", "A new job", v1alpha1.DeleteWithoutUninstallAnnotation},
		},
		"aborted": {
			"the crashes are those of one job, whatever was called", failed, "Aborted", "Reconcile Abort Abort",
			[]string{"could not do it in its own way", `the plugin "one"`, "3 times"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, crashes, withoutTimeout)
			b.plugin.Capabilities.Abort = true
			if name == "deleted" {
				b.remove(b.item)
			}
			b.setJob()
			b.clock.Step(b.reconcile(t.Context()))
			if name == "aborted" {
				b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
			}
			last := b.driveTo(tc.phase).Status.LastError
			for _, text := range tc.says {
				if !strings.Contains(last.Message, text) {
					t.Errorf("%s: expected %q in %q", tc.reason, text, last.Message)
				}
			}
			internal := slices.Contains(last.Codes, v1alpha1.ErrorInternalProblem)
			if last.Reason != tc.why || internal == (name == "aborted") || operations(b.calls) != tc.calls {
				t.Errorf("%s: expected %s after %q, but found %+v after %v", tc.reason, tc.why, tc.calls, last, b.calls)
			}
		})
	}
}

// TestStatusBetweenCrashes: the item shows what has happened and that it is tried again, until the plugin is called
// again.
func TestStatusBetweenCrashes(t *testing.T) {
	b := newBench(t, crashes, withoutTimeout)
	b.setJob()
	b.reconcile(t.Context())
	const says = `the plugin "one" ended in the middle of the call (1 of 3); it is tried again when the plugin runs`
	expect := func(reason string) {
		t.Helper()
		item := b.read()
		if e := item.Status.LastError; e == nil || e.Reason != contract.ReasonPluginCrashed || e.Message != says ||
			len(e.Codes) != 0 {
			t.Errorf("%s: found %s", reason, describe(item))
		}
		if got := reconciling(item); got != "another try, after: "+says ||
			item.Status.Phase != v1alpha1.DeployItemPhaseProgressing {
			t.Errorf("%s: the condition says %q, and the phase is %s", reason, got, item.Status.Phase)
		}
	}
	expect("the plugin has crashed")
	if event := <-b.events.Events; !strings.HasPrefix(event, "Warning PluginCrashed ") || !strings.Contains(event, says) {
		t.Errorf("expected a warning, but found %q", event)
	}

	b.answer = always(nil, plugin.ErrNotRunning)
	b.plugins.(*intaketest.Plugins).Change(func(p *intaketest.Plugins) { p.Down = map[string]bool{"one": true} })
	b.router.PluginsRun(map[string]bool{"one": true})
	writes := b.n
	if wait := b.reconcile(t.Context()); b.n != writes || wait != job.PluginPoll || len(b.calls) != 2 {
		t.Errorf(
			"expected a call and no write, and another reconcile after %s, but found the calls %v, %d writes and %s",
			job.PluginPoll, b.calls, b.n-writes, wait,
		)
	}
	expect("the plugin does not run yet")

	b.answer = succeeds
	b.router.PluginsRun(map[string]bool{"one": true}) // the job does not wait for the next poll
	if b.reconcile(t.Context()); b.read().Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected success, but found %s", describe(b.read()))
	}
}

// TestUnhealthyPlugin: a plugin that is killed because of the call of another item is reported, without that
// item, and counts as no crash.
func TestUnhealthyPlugin(t *testing.T) {
	b := newBench(t, always(nil, fmt.Errorf("%w: %w: Reconcile of the deploy item other/item goes on",
		plugin.ErrNotRunning, plugin.ErrUnhealthy)))
	b.setJob()
	b.reconcile(t.Context())
	item := b.read()
	if contract.Crashes(item) != 0 || item.Status.LastError != nil || item.Status.JobIDFinished == item.Status.JobID {
		t.Errorf("expected a job that goes on without an error, but found %s", describe(item))
	}
	if event := <-b.events.Events; !strings.HasPrefix(event, "Warning PluginUnhealthy ") ||
		strings.Contains(event, "other") {
		t.Errorf("expected a warning without the name of another item, but found %q", event)
	}
}

// TestCrashThatDoesNotCount: an item is to blame neither for the host's own doing, nor for the call of another job.
func TestCrashThatDoesNotCount(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		meanwhile    func(b *bench, stop func())
	}{
		{"shutdown", "the host ends its plugins", func(_ *bench, stop func()) { stop() }},
		{"another job", "the call was not for the job that is there now", func(b *bench, _ func()) {
			b.setJob()
			b.memory.Changed(client.ObjectKeyFromObject(b.item))
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			var b *bench
			b = newBench(t, func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
				tc.meanwhile(b, stop)
				<-ctx.Done()
				return nil, plugin.ErrCrashed
			}, withoutTimeout)
			b.setJob()
			b.reconcile(ctx)
			if item := b.read(); contract.Crashes(item) != 0 || item.Status.LastError != nil {
				t.Errorf("%s: found %g crashes, %s", tc.reason, contract.Crashes(item), describe(item))
			}
			if !b.slots.Acquire(anotherItem, slots.Poison, slots.Running) {
				t.Error("the call has ended, but its slot is not free")
			}
		})
	}
}
