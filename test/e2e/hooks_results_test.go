package e2e

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// soon lets a job that a hook asks for begin soon.
const soon = "continuousReconcile: {minimumInterval: 1s}"

// forHooks is an annotation whose change has the hooks of an item at rest asked again.
const forHooks = "test.extensions.landscaper.gardener.cloud/look"

// TestHookTimeout: a hook that hangs holds its own item back until it is over, and no others.
func TestHookTimeout(t *testing.T) {
	h := startTraced(t, []string{"tracer", "probe"}, "timeouts: {hook: 1s}")
	b, release := released(t, behaviour{"hang": true})
	item := start(t, h.newItem("hangs", behaving(hook.BeforeReconcile, b)))

	failing := waitLastError(t, item, "1s")
	if e := failing.Status.LastError; e.Reason != "HookTimeout" || !strings.Contains(e.Message, string(hook.BeforeReconcile)) {
		t.Errorf("expected an error that names the hook which is too slow, but found %s", marshal(t, e))
	}
	passTime(t, h.namespace)
	h.checkNotCalled(item)

	release()
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

// TestHookResults: what a hook returns decides what becomes of the item.
func TestHookResults(t *testing.T) {
	zone := strings.TrimPrefix(zoneA, anyConfig)
	h := startTraced(t, []string{"tracer", "hooksonly", "probe"}, soon, zone)
	createZoneTarget(t, h.namespace, "in-zone", "a")
	createZoneTarget(t, h.namespace, "elsewhere", "b")
	t.Run("of", func(t *testing.T) {
		for name, test := range map[string]func(t *testing.T, h *traced){
			"a Before type that aborts and asks for another look":   abortBeforeWithRequeue,
			"a Before type that aborts":                             abortBefore,
			"BeforeAnyReconcile that aborts":                        abortBeforeAny,
			"AfterResponsibilityCheck that aborts":                  abortAfterResponsibility,
			"a hook that fails":                                     failBefore,
			"a hook that fails with an unrecoverable code":          failForGood,
			"a hook that panics":                                    panicBefore,
			"a deletion whose hook aborts":                          abortDeletionBefore,
			"DuringResponsibilityCheck that says no":                overruleNo,
			"DuringResponsibilityCheck that says yes":               overruleYes,
			"ShouldReconcile that enforces a job":                   enforceJob,
			"ShouldReconcile that would stop a job which is needed": shouldNotStop,
			"End that asks for another look":                        endRequeues,
		} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				test(t, h.with(t))
			})
		}
	})
	t.Run("of a plugin that does not run", func(t *testing.T) { holdBack(t, h.with(t)) })
	t.Run("of a hook that crashes", func(t *testing.T) { crashBefore(t, h.with(t)) })
}

// released is a hook that behaves in some way until release is called.
func released(t *testing.T, b behaviour) (limited behaviour, release func()) {
	t.Helper()
	file := t.TempDir() + "/release"
	limited = behaviour{"unless": file}
	for field, value := range b {
		limited[field] = value
	}
	return limited, func() { touch(t, file) }
}

func abortBeforeWithRequeue(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"abort": true, "requeueAfter": "100ms"})
	item := start(t, h.newItem("requeues", behaving(hook.BeforeReconcile, b)))

	h.waitCount(item, string(hook.BeforeReconcile), 3)
	if fresh := read(t, item); fresh.Status.JobIDFinished == item.Status.JobID {
		t.Errorf("expected the job to stay unfinished, but found %s", describe(fresh))
	}
	h.checkNotCalled(item)

	release()
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func abortBefore(t *testing.T, h *traced) {
	t.Helper()
	item := h.newItem("aborts", behaving(hook.BeforeReconcile, behaviour{"abort": true}))
	item.Spec.Timeout = "3s"
	item = start(t, item)

	item = waitPhase(t, item, v1alpha1.DeployItemPhaseFailed)

	if e := item.Status.LastError; e == nil || !slices.Contains(e.Codes, v1alpha1.ErrorTimeout) {
		t.Errorf("expected the job to end by its timeout, but found %s", describe(item))
	}
	h.checkNotCalled(item)
}

func abortBeforeAny(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"abort": true, "requeue": true})
	item := start(t, h.newItem("aborts-any", behaving(hook.BeforeAnyReconcile, b)))

	h.waitCount(item, string(hook.BeforeAnyReconcile), 2)
	if n := h.count(item, string(hook.BeforeReconcile)); n != 0 {
		t.Errorf("expected no hook to run after the one that aborts, but BeforeReconcile has %d times", n)
	}
	h.checkNotCalled(item)

	release()
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func abortAfterResponsibility(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"abort": true, "requeueAfter": "100ms"})
	item := start(t, h.newItem("aborts-early", behaving(hook.AfterResponsibilityCheck, b)))

	h.waitCount(item, string(hook.AfterResponsibilityCheck), 2)
	if fresh := read(t, item); fresh.Status.Phase != item.Status.Phase || fresh.Status.LastReconcileTime != nil {
		t.Errorf("expected the job not to be picked up, but found %s", describe(fresh))
	}

	release()
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func failBefore(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"error": "the sky is falling"})
	item := start(t, h.newItem("fails", behaving(hook.BeforeReconcile, b)))

	failing := waitLastError(t, item, "the sky is falling")
	if message := failing.Status.LastError.Message; !strings.Contains(message, string(hook.BeforeReconcile)) || !strings.Contains(message, "tracer") {
		t.Errorf("the message does not name hook and plugin: %q", message)
	}
	h.waitCount(item, string(hook.BeforeReconcile), 2)
	h.checkNotCalled(item)

	release()
	if item = waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded); item.Status.LastError != nil {
		t.Errorf("expected the error to go with the success, but found %s", describe(item))
	}
}

func failForGood(t *testing.T, h *traced) {
	t.Helper()
	b := behaviour{"error": "the sky is missing", "code": v1alpha1.ErrorConfigurationProblem}
	item := start(t, h.newItem("fails-for-good", behaving(hook.BeforeReconcile, b)))

	item = waitPhase(t, item, v1alpha1.DeployItemPhaseFailed)

	e := item.Status.LastError
	if e == nil || !strings.Contains(e.Message, "the sky is missing") || !slices.Contains(e.Codes, v1alpha1.ErrorConfigurationProblem) {
		t.Errorf("expected the hook's error, but found %s", marshal(t, e))
	}
	if n := h.count(item, string(hook.BeforeReconcile)); n != 1 {
		t.Errorf("expected the hook to be called once, but it was called %d times", n)
	}
	h.checkNotCalled(item)
}

func panicBefore(t *testing.T, h *traced) {
	t.Helper()
	item := start(t, h.newItem("panics", behaving(hook.BeforeReconcile, behaviour{"panic": true})))

	item = waitPhase(t, item, v1alpha1.DeployItemPhaseFailed)

	if e := item.Status.LastError; e == nil || e.Reason != "PluginPanic" {
		t.Errorf("expected reason PluginPanic, but found %s", marshal(t, e))
	}
	h.checkNotCalled(item)
}

func abortDeletionBefore(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"abort": true, "requeueAfter": "100ms"})
	item := waitPhase(t, start(t, h.newItem("stays", behaving(hook.BeforeDelete, b))), v1alpha1.DeployItemPhaseSucceeded)
	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)

	h.waitCount(item, string(hook.BeforeDelete), 2)
	if n := h.count(item, "Delete"); n != 0 || len(read(t, item).Finalizers) == 0 {
		t.Errorf("expected the deletion to wait for the hook, but Delete was called %d times", n)
	}

	release()
	waitGone(t, item)
	if n := h.count(item, "Delete"); n != 1 {
		t.Errorf("expected one call of Delete, but found %d", n)
	}
}

func overruleNo(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"abort": true})
	item := start(t, withTarget(h.newItem("not-ours", behaving(hook.DuringResponsibilityCheck, b)), "in-zone"))

	h.waitCount(item, string(hook.DuringResponsibilityCheck), 1)
	passTime(t, h.namespace)
	checkZoneUntouched(t, item)
	for _, after := range []hook.Type{hook.AfterResponsibilityCheck, hook.ShouldReconcile, hook.BeforeAnyReconcile, hook.End} {
		if n := h.count(item, string(after)); n != 0 {
			t.Errorf("expected no hook to run for an item that is not the deployer's, but %s has %d times", after, n)
		}
	}

	release()
	annotate(t, item, "example.org/look", "again")
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
}

func overruleYes(t *testing.T, h *traced) {
	t.Helper()
	plain := start(t, withTarget(h.newItem("of-elsewhere", nil), "elsewhere"))
	item := start(t, withTarget(h.newItem("ours", behaving(hook.DuringResponsibilityCheck, behaviour{"abort": false})), "elsewhere"))

	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	passTime(t, h.namespace)
	checkZoneUntouched(t, plain)
	interrupt(t, plain, plain.Status.JobID) // the hosts of other tests take all zones
}

func enforceJob(t *testing.T, h *traced) {
	t.Helper()
	file := t.TempDir() + "/job"
	item := waitPhase(t, start(t, h.newItem("enforced", behaving(hook.ShouldReconcile, behaviour{"job": file}))), v1alpha1.DeployItemPhaseSucceeded)
	first := item.Status.JobID

	if err := os.WriteFile(file, []byte(first), 0o600); err != nil {
		t.Fatal(err)
	}
	annotate(t, item, forHooks, "again")
	item = waitFinishedAfter(t, item, first)

	if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || item.Status.JobID == "" {
		t.Errorf("expected another job that succeeds, but found %s", describe(item))
	}
	asked := h.count(item, string(hook.ShouldReconcile))
	annotate(t, item, forHooks, "once more")
	h.waitCount(item, string(hook.ShouldReconcile), asked+1)
	passTime(t, h.namespace)
	if after := read(t, item); after.Status.JobID != item.Status.JobID || h.count(item, "Reconcile") != 2 {
		t.Errorf("expected one job more, but found %d calls, %s", h.count(item, "Reconcile"), describe(after))
	}
}

func shouldNotStop(t *testing.T, h *traced) {
	t.Helper()
	item := start(t, h.newItem("needed", behaving(hook.ShouldReconcile, behaviour{"abort": true})))
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	h.waitCount(item, string(hook.ShouldReconcile), 1)
}

func endRequeues(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"requeueAfter": "100ms"})
	item := start(t, h.newItem("end", behaving(hook.End, b)))
	item = waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)

	before := h.count(item, string(hook.ShouldReconcile))
	h.waitCount(item, string(hook.ShouldReconcile), before+1)
	release()
	if n := h.count(item, "Reconcile"); n != 1 {
		t.Errorf("expected another look but no other job, and found %d calls", n)
	}
}

// crashBefore: a plugin that ends in the middle of a hook is started again, and the job goes on.
func crashBefore(t *testing.T, h *traced) {
	t.Helper()
	b, release := released(t, behaviour{"crash": true})
	item := start(t, h.newItem("crashes", behaving(hook.BeforeReconcile, b)))
	h.waitCount(item, string(hook.BeforeReconcile), 1)
	release()
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	var processes []int
	for _, r := range h.of("tracer", item) {
		processes = append(processes, r.PID)
	}
	if len(slices.Compact(processes)) < 2 {
		t.Errorf("expected another process after the crash, but found %v", processes)
	}
}

// checkNotCalled checks that no method of the deployer was called for an item.
func (h *traced) checkNotCalled(item *v1alpha1.DeployItem) {
	h.t.Helper()
	for _, r := range h.of("tracer", item) {
		if !slices.Contains(hook.Types(), hook.Type(r.Step)) {
			h.t.Errorf("expected the deployer not to be called for item %s, but found %+v", item.Name, r)
		}
	}
}

// holdBack: a plugin without a deployer that does not run holds the jobs back that its hooks are for, and no others.
func holdBack(t *testing.T, h *traced) {
	t.Helper()
	down := string(h.file) + ".down"
	touch(t, down)
	kill(t, pid(t, h.Host, "hooksonly"))
	eventually(t, "the plugin hooksonly to be down", func(context.Context) (string, error) {
		if !strings.Contains(h.Log(), "keeps the plugin from starting") {
			return "its process has not tried to start", nil
		}
		return "", nil
	})
	item := start(t, h.newItem("held-back", nil))
	passTime(t, h.namespace)
	h.checkNotCalled(item)
	if fresh := read(t, item); fresh.Status.JobIDFinished == item.Status.JobID {
		t.Errorf("expected the job to be held back, but found %s", describe(fresh))
	}

	remove(t, down)
	waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
	if n := len(h.of("hooksonly", item)); n == 0 {
		t.Error("the job was carried out without the hooks of the plugin hooksonly")
	}
}
