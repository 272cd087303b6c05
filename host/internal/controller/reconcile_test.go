package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemstate"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// writesOfAJob is how many writes a first job has: pick-up, finalizer, provider status, exports, final.
const writesOfAJob = 5

// expectSuccess checks that a job has come to its end with everything that it was to write, each once.
func (b *bench) expectSuccess(jobID string) {
	b.t.Helper()
	item := b.drive()
	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.JobIDFinished != jobID ||
		item.Status.JobID != jobID {
		b.t.Errorf("expected job %s to succeed, but found %s (errors %v)", jobID, describe(item), b.errs)
	}
	if b.finals != 1 {
		b.t.Errorf("jobIDFinished was written %d times", b.finals)
	}
	if diff := cmp.Diff([]string{v1alpha1.Finalizer}, item.Finalizers); diff != "" {
		b.t.Errorf("finalizers (-want +got):\n%s", diff)
	}
	if got := rawStatus(item); got != providerStatus {
		b.t.Errorf("provider status: expected %s, but found %s", providerStatus, got)
	}
	secret := &corev1.Secret{}
	if ref := item.Status.ExportReference; ref == nil {
		b.t.Error("no export reference")
	} else if err := b.admin.Get(
		b.t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret,
	); err != nil || string(secret.Data["config"]) != `{"a":1}` {
		b.t.Errorf("export secret: %v, %s", err, secret.Data)
	}
	if last := b.calls[len(b.calls)-1]; last != "Reconcile "+jobID {
		b.t.Errorf("expected the last call to be for job %s, but found %s", jobID, last)
	}
}

// TestTroubleAtEachWrite: whatever happens at whichever write, the job ends right.
// Rule (deploy-items.md#jobs): A job ends right, whatever goes wrong at each of its writes.
func TestTroubleAtEachWrite(t *testing.T) {
	unavailable := apierrors.NewInternalError(errors.New("etcd has no leader"))
	for name, trouble := range map[string]func(b *bench, do func() error) error{
		"none":      func(_ *bench, do func() error) error { return do() },
		"conflict":  func(b *bench, do func() error) error { b.touch(b.item); return do() },
		"API error": func(*bench, func() error) error { return unavailable },
		"lost answer": func(_ *bench, do func() error) error {
			if err := do(); err != nil {
				return err
			}
			return unavailable
		},
		"new job": func(b *bench, do func() error) error { b.setJob(); return do() },
		"interruption": func(b *bench, do func() error) error {
			b.patchStatus(b.item, fmt.Sprintf(`{"jobIDFinished":%q,"phase":"Failed"}`, b.read().Status.JobID))
			return do()
		},
	} {
		for n := 1; n <= writesOfAJob; n++ {
			t.Run(fmt.Sprintf("%s at %d", name, n), func(t *testing.T) {
				b := newBench(t, succeeds)
				jobID := b.setJob()
				b.write = func(i int, do func() error) error {
					if i != n {
						return do()
					}
					err := trouble(b, do)
					jobID = b.read().Status.JobID
					return err
				}
				item := b.drive()
				if name != "interruption" {
					b.expectSuccess(jobID)
				} else if item.Status.Phase != v1alpha1.DeployItemPhaseFailed || b.finals != 0 {
					t.Errorf("expected the interruption to stay, but found %s, written %d times by us", describe(item), b.finals)
				}
				if name == "none" && b.n != writesOfAJob {
					t.Errorf("expected %d writes, but found %d", writesOfAJob, b.n)
				}
			})
		}
	}
}

// Rule (deploy-items.md#deleting): The finalizer goes after a successful uninstallation; finalizers of others stay.
func TestTroubleAtEachWriteOfADeletion(t *testing.T) {
	const other = "test.pergola.dev/other"
	for _, held := range []bool{false, true} {
		for n := 0; n <= 4; n++ { // pick-up, provider status, finalizer, and the final status if the item is held
			t.Run(fmt.Sprintf("held %t, conflict at %d", held, n), func(t *testing.T) {
				b := newBench(t, succeeds, withFinalizer, func(i *v1alpha1.DeployItem) {
					if held {
						i.Finalizers = append(i.Finalizers, other)
					}
				})
				b.remove(b.item)
				b.setJob()
				b.write = func(i int, do func() error) error {
					if i == n {
						b.touch(b.item)
					}
					return do()
				}
				item := b.drive()
				if !strings.HasPrefix(b.calls[len(b.calls)-1], "Delete ") || (item != nil) != held {
					t.Fatalf("expected the item to be there: %t, but found calls %v, %s", held, b.calls, describe(item))
				}
				if !held {
					return
				}
				b.expectPhase(v1alpha1.DeployItemPhaseSucceeded)
				if b.finals != 1 || !slices.Equal(item.Finalizers, []string{other}) {
					t.Errorf("expected one end, and %s to stay, but found %d, %v", other, b.finals, item.Finalizers)
				}
			})
		}
	}
}

// TestDeletionHasTheNewestSpec: a deletion that is tried again has the item as it is by then, so that a user can change
// how it goes on, and shows its error meanwhile. A change during the last try is left to the next job, which
// standalone.decide sets.
// Rule (deploy-items.md#deleting): A repeated deletion has the item as it is by then.
// Rule (deploy-items.md#deleting): A deletion shows its error while it is tried again.
func TestDeletionHasTheNewestSpec(t *testing.T) {
	b := newBench(t, nil, withFinalizer)
	var generations []int64
	b.plugin.OnCall = func(
		_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer,
	) (*plugin.Outcome, error) {
		if generations = append(generations, c.DeployItem.Generation); len(generations) < 3 {
			return fails("HookHoldsItUp")
		}
		b.patch(b.item, `{"spec":{"config":{"n":3}}}`)
		return failsFor(v1alpha1.ErrorNoRetry, "HookFailed")
	}
	b.remove(b.item)
	b.setJob()
	b.reconcile(t.Context())
	item := b.expectPhase(v1alpha1.DeployItemPhaseDeleting)
	deleted := item.Generation
	if e := item.Status.LastError; e == nil || e.Message != "HookHoldsItUp" {
		t.Errorf("expected the error of the deletion, but found %s", describe(item))
	}
	b.clock.Step(time.Minute)
	b.patch(b.item, `{"spec":{"config":{"n":2}}}`)
	b.reconcile(t.Context())
	item = b.drive()
	if want := []int64{deleted, deleted + 1, deleted + 1}; !slices.Equal(generations, want) {
		t.Errorf("expected calls with the generations %v, but found %v", want, generations)
	}
	if item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed || item.Generation == item.Status.ObservedGeneration {
		t.Errorf("expected a failed deletion of an item that has changed, but found %s", describe(item))
	}
}

// Rule (operators-guide.md#upgrade): A job is carried on after a stop of its host.
func TestShutdownInTheMiddle(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stopped := false
	b := newBench(t, func(ctx context.Context, op plugin.Operation, observer plugin.Observer) (*plugin.Outcome, error) {
		if !stopped {
			stopped = true
			stop()
			return fails("AskedToStop")
		}
		return succeeds(ctx, op, observer)
	})
	jobID := b.setJob()
	if wait := b.reconcile(ctx); wait != 0 {
		t.Errorf("a host that stops wants no further reconcile, but has one in %s", wait)
	}
	if item := b.read(); item.Status.Phase != v1alpha1.DeployItemPhaseInit || item.Status.LastError != nil ||
		item.Status.JobIDFinished != "" {
		t.Errorf("a job that the host could not finish stays as it is, but found %s", describe(item))
	}
	b.expectSuccess(jobID)
}

func TestTimeout(t *testing.T) {
	waiting := always(waits("pod a/b"))
	late := func(_ context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		o.Progress("Install", "installing")
		return nil, context.DeadlineExceeded
	}
	failed := v1alpha1.DeployItemPhaseFailed
	for name, tc := range map[string]struct {
		reason  string
		answer  answer
		timeout v1alpha1.Duration
		times   int
		phase   v1alpha1.DeployItemPhase
		says    []string
	}{
		// Rule (deploy-items.md#errors): A job fails with `ERR_TIMEOUT` after `spec.timeout`, and says what it was
		// waiting for.
		"waiting": {
			"the message names what was waited for", waiting, "90s", 3, failed,
			[]string{"ERR_TIMEOUT", "ProgressingTimeout", "pod a/b"},
		},
		"none": {"none really is none", waiting, "none", 100, v1alpha1.DeployItemPhaseProgressing, nil},
		// Rule (deploy-items.md#errors): An unreadable timeout fails the job, and the error names the field.
		"malformed": {
			"the error names the field", waiting, "99999999999999h", 1, failed,
			[]string{"ERR_CONFIGURATION_PROBLEM", "spec.timeout", "99999999999999h"},
		},
		"plugin down": {
			"the message names the plugin, and the timeout is not noticed late", always(nil, plugin.ErrNotRunning), "45s", 100,
			failed, []string{`the plugin "one" to run again`},
		},
		"in a call": {
			"the message names the plugin, the call and the last step", late, "45s", 1, failed,
			[]string{`the plugin "one" had not ended the call Reconcile; it was waiting for: installing`},
		},
		// Rule (deploy-items.md#errors): A job without its Context ends by its timeout, and says why.
		"no Context": {"the message names it", nil, "45s", 100, failed, []string{"ProgressingTimeout", "Context"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.answer, func(i *v1alpha1.DeployItem) {
				if i.Spec.Timeout = tc.timeout; tc.answer == nil {
					i.Spec.Context = "missing"
				}
			})
			_, began := b.setJob(), b.clock.Now()
			for range tc.times {
				b.clock.Step(b.reconcile(t.Context()))
			}
			item := b.expectPhase(tc.phase)
			limit, err := time.ParseDuration(string(tc.timeout))
			if took := b.clock.Since(began); err == nil && took > limit+2*time.Second {
				t.Errorf("%s: the timeout was noticed after %s", tc.reason, took)
			}
			for _, text := range tc.says {
				if e := item.Status.LastError; !strings.Contains(fmt.Sprint(e.Reason, e.Message, e.Codes), text) {
					t.Errorf("%s: expected %q in %s", tc.reason, text, describe(item))
				}
			}
		})
	}
}

// TestTimeoutOfPlugin: a job keeps the time that it was picked up with, also where its plugin says something else by
// then.
func TestTimeoutOfPlugin(t *testing.T) {
	const hour = time.Hour
	for name, tc := range map[string]struct {
		ofPlugin, ofOperator time.Duration
		ofItem               v1alpha1.Duration
		want                 time.Duration
	}{
		"nothing": {want: contract.DefaultTimeout},
		// Rule (deploy-items.md#jobs): A plugin may give the items of a type another default than ten minutes.
		"the plugin": {ofPlugin: 2 * hour, want: 2 * hour},
		"the item":   {ofPlugin: 2 * hour, ofItem: "30m", want: hour / 2},
		// Rule (host-configuration.md#fields): `defaultTimeout` lowers the time of items without `spec.timeout`.
		"the operator, lower":  {ofPlugin: 2 * hour, ofOperator: hour, want: hour},
		"the operator, higher": {ofPlugin: hour, ofOperator: 2 * hour, want: hour},
		"the operator alone":   {ofOperator: time.Minute, want: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, always(waits("pod a/b")), withTimeout(tc.ofItem))
			b.plugin.Limits.Timeouts = map[v1alpha1.DeployItemType]time.Duration{testType: tc.ofPlugin}
			b.set(func(p *parts) { p.options.Limits = map[string]Limits{"one": {DefaultTimeout: tc.ofOperator}} })
			b.setJob()
			b.reconcile(t.Context())
			b.plugin.Limits.Timeouts = nil
			item := b.read()
			deadline, err := contract.Deadline(item)
			got := deadline.Sub(item.Status.TransitionTimes.InitTime.Time) - contract.Resolution
			if err != nil || got != tc.want {
				t.Errorf("expected %s for the job, but found %s (%v)", tc.want, got, err)
			}
		})
	}
}

// TestPluginRunsAgainMeanwhile: a plugin that has started before its job was known to wait for it does not wake it; the
// job does not wait for the next poll all the same.
func TestPluginRunsAgainMeanwhile(t *testing.T) {
	b := newBench(t, always(nil, plugin.ErrNotRunning))
	b.setJob()
	if wait := b.reconcile(t.Context()); wait > joberror.FirstRetry { // the plugin is running
		t.Errorf("the job goes on after %s", wait)
	}
}

// Rule (deploy-items.md#jobs): With `updateOnChangeOnly`, a job for an unchanged item succeeds without a call of the
// deployer.
func TestUpdateOnChangeOnly(t *testing.T) {
	b := newBench(t, succeeds, func(i *v1alpha1.DeployItem) { i.Spec.UpdateOnChangeOnly = true })
	b.expectSuccess(b.setJob())
	b.n, b.finals = 0, 0
	b.setJob()
	if b.driveTo(v1alpha1.DeployItemPhaseSucceeded); len(b.calls) != 1 || b.n != 1 {
		t.Errorf("expected no second call, and one write, but found %v and %d", b.calls, b.n)
	}
}

// Rule (architecture.md#the-way-of-a-deployitem): An item of another type is never modified.
func TestLyingMetadata(t *testing.T) {
	b := newBench(t, succeeds, func(i *v1alpha1.DeployItem) { i.Spec.Type = "test.pergola.dev/other" })
	b.setJob()
	before := b.read()
	if after := b.drive(); after.ResourceVersion != before.ResourceVersion || len(b.calls) != 0 {
		t.Errorf("an item of another type was written or carried out: calls %v", b.calls)
	}
	b.reconcile(t.Context())
	if known := b.memory.Recall(client.ObjectKeyFromObject(b.item), b.item.UID); known.State != itemstate.Unknown {
		t.Error("an item of another type is remembered")
	}
}

// TestJobEnded: a job that has ended without a result of the plugin is reported, and of no other.
func TestJobEnded(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		answer answer
		heard  bool
	}{
		"succeeded":   {"the plugin has cleared up itself", succeeds, false},
		"failed":      {"the plugin has had the last word", always(failsFor(v1alpha1.ErrorNoRetry, "no")), false},
		"timed out":   {"the plugin was not asked", always(waits("something")), true},
		"crashed":     {"the plugin could not", crashes, true},
		"interrupted": {"the plugin does not know", always(waits("something")), true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, tc.answer)
			var heard []string
			b.set(func(p *parts) { p.options.JobEnded = func(plugin string) { heard = append(heard, plugin) } })
			jobID := b.setJob()
			b.reconcile(t.Context())
			if name == "interrupted" {
				b.patchStatus(b.item, `{"phase":"Failed","jobIDFinished":"`+jobID+`"}`)
			}
			if item := b.drive(); item.Status.JobIDFinished != jobID || slices.Equal(heard, []string{"one"}) != tc.heard ||
				len(heard) > 1 {
				t.Errorf("%s: found that %v were reported, and %s", tc.reason, heard, describe(item))
			}
		})
	}
}

// TestWithheld: a plugin that is not called, because the host cannot give it what was promised, is called again
// later; the user learns why.
func TestWithheld(t *testing.T) {
	b := newBench(t, always(nil, plugin.Error{
		Operation: "AccessHostCluster", Reason: "HostClusterUnavailable", Message: "there is no ServiceAccount",
	}))
	jobID := b.setJob()
	b.clock.Step(b.reconcile(t.Context()))
	item := b.expectPhase(v1alpha1.DeployItemPhaseProgressing)
	if e := item.Status.LastError; e == nil || e.Reason != "HostClusterUnavailable" ||
		e.Message != "there is no ServiceAccount" {
		t.Errorf("expected another try and to hear why, but found %s", describe(item))
	}
	b.answer = succeeds
	b.expectSuccess(jobID)
}
