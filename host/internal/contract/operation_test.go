package contract_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestDecideOperation(t *testing.T) {
	const (
		reconcile, test = v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile
		force, abort    = v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort
	)
	done := finished(succeeded)
	deletes := pickedUp(0, deleting)
	otherJob := withJob("job-4")
	setAgain := func(i *v1alpha1.DeployItem) { // after ours was carried out
		nextJob(i)
		skipped(i)
		i.Status.JobID, i.Status.JobIDFinished = "job-2", "job-2"
	}
	endsWith := func(job string) modifier {
		return func(i *v1alpha1.DeployItem) { i.Status.JobID, i.Status.JobIDFinished = job, job }
	}
	start := contract.Decision{Action: contract.Start, JobID: "job-3"}
	forced := func(d contract.Decision) contract.Decision { d.Force = true; return d }
	checkDecisions(t, []decideCase{
		{"reconcile, idle", newItem(done, asks(reconcile)), do(contract.Accept)},
		{"test-reconcile, idle", newItem(done, asks(test)), do(contract.Accept)},
		{"force-reconcile, idle", newItem(done, asks(force)), do(contract.Accept)},
		// A request without effect is taken away, too.
		{"abort, idle", newItem(done, asks(abort)), do(contract.Accept)},
		{"unknown", newItem(done, asks("interrupt")), do(contract.Nothing)},
		// A new job would take the one under way from the program that waits for it.
		// Rule (deploy-items.md#operations): `reconcile` waits until the running job has ended.
		{"reconcile, under way", newItem(underWay, asks(reconcile)), do(contract.Continue)},
		{"force-reconcile, under way", newItem(underWay, asks(force)), do(contract.Accept)},
		{"a deletion cannot be forced", newItem(deletes, deleted, asks(force)), deletion(contract.Continue)},
		{"an abort does not wait", newItem(underWay, asks(abort)), do(contract.Accept)},

		// Rule (deploy-items.md#operations): `reconcile` sets a new job.
		{"reconcile accepted", newItem(done, accepts(reconcile)), start},
		{"test-reconcile accepted", newItem(done, accepts(test)), start},
		// Rule (deploy-items.md#operations): `force-reconcile` sets a forced job.
		{"force accepted", newItem(done, accepts(force)), forced(start)},
		{"first job, without a Landscaper", newItem(endsWith(""), accepts(reconcile)), start},
		{"a job that was set is not set again",
			newItem(done, accepts(reconcile), endsWith("job-3")), do(contract.Nothing)},
		// Landscaper has set a job meanwhile, which does the same.
		{"reconcile accepted, but overtaken", newItem(done, accepts(reconcile), otherJob), do(contract.PickUp)},
		// A Landscaper that sets the same job again must not be answered with ours again, for ever.
		{"reconcile accepted, same job once more", newItem(done, accepts(reconcile), setAgain), do(contract.Nothing)},

		{"force accepted, under way", newItem(underWay, accepts(force)), forced(do(contract.Continue))},
		{"the force was for the job before", newItem(underWay, accepts(force), otherJob), do(contract.PickUp)},
		{"force accepted, not begun", newItem(accepts(force)), forced(do(contract.PickUp))},
		{"force means although nothing has changed",
			newItem(inPhase(succeeded), onChangeOnly(3), accepts(force)), forced(do(contract.PickUp))},
		{"an abort is not taken back by force", newItem(underWay, accepts(abort), asks(force)), do(contract.Abort)},
		{"the force was for the finished job",
			newItem(underWay, accepts(force), finished(succeeded)), do(contract.EndedElsewhere)},
		{"force accepted, deletion", newItem(deletes, deleted, accepts(force)), deletion(contract.Continue)},

		{"abort accepted", newItem(underWay, accepts(abort)), do(contract.Abort)},
		{"abort accepted, not begun: its deployer knows nothing of it", newItem(accepts(abort)), do(contract.GiveUp)},
		{"abort accepted, interrupted", newItem(underWay, accepts(abort), finished(failed)), do(contract.EndedElsewhere)},
		{"the abort was for the job before", newItem(underWay, accepts(abort), otherJob), do(contract.PickUp)},
		{"the abort was not for the deletion", newItem(underWay, accepts(abort), deleted), deletion(contract.PickUp)},
		{"abort of a deletion", newItem(deletes, deleted, accepts(abort)), deletion(contract.Abort)},
		{"a note of another program means nothing",
			newItem(done, annotated(contract.AcceptedAnnotation, "reconcile")), do(contract.Nothing)},
	})
}

func TestDecideFailedDeletion(t *testing.T) {
	gone := failedWith(contract.OperationResolve, contract.ReasonTargetNotFound)
	leave := annotated(v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	endedNext := func(i *v1alpha1.DeployItem) { i.Status.JobID, i.Status.JobIDFinished = "job-3", "job-3" }
	leaving := func(a contract.Action) contract.Decision {
		return contract.Decision{Action: a, Deletion: true, LeaveBehind: true}
	}
	refused := failedWith("Delete", "Refused")
	byHook := failedWith("Hook", "Refused")
	checkDecisions(t, []decideCase{
		// Rule (deploy-items.md#deleting): A deletion without its Target begins again when the Target is back.
		{"target gone", newItem(deleted, gone), deletion(contract.Restart)},
		{"context gone", newItem(deleted, failedWith(contract.OperationResolve, contract.ReasonContextNotFound)),
			deletion(contract.Restart)},
		{"another reason needs another job", newItem(deleted, refused), deletion(contract.Nothing)},
		{"a plugin's reason restarts no job",
			newItem(deleted, failedWith("Delete", contract.ReasonTargetNotFound)), deletion(contract.Nothing)},
		// Landscaper sets another job when the user has mended it.
		{"not deleted", newItem(gone), do(contract.Nothing)},
		// The way out that the error names works at once.
		{"to be left", newItem(deleted, gone, leave, hasFinalizer), leaving(contract.Start)},
		{"left already, but held by another finalizer", newItem(deleted, gone, leave), leaving(contract.Restart)},
		// A job that was to leave it behind has failed by a hook, and another one would too.
		{"left in vain", newItem(deleted, leave, begun, byHook, hasFinalizer), leaving(contract.Nothing)},
		{"left in vain before the last job",
			newItem(deleted, leave, begun, byHook, hasFinalizer, endedNext), leaving(contract.Start)},
		{"to be left since the job began", newItem(deleted, begun, refused, leave, hasFinalizer), leaving(contract.Start)},
		{"left after any failure", newItem(deleted, refused, leave, hasFinalizer), leaving(contract.Start)},
	})
}

// Rule (deploy-items.md#operations): A request is accepted, and its annotation removed, in one write.
func TestAcceptOperation(t *testing.T) {
	done := finished(succeeded)
	for name, tc := range map[string]struct {
		reason    string
		item      *v1alpha1.DeployItem
		effective bool
		note      string
	}{
		"reconcile": {"the job to set, and the one it follows",
			newItem(done, asks("reconcile")), true, `{"operation":"reconcile","jobID":"job-3","after":"job-2"}`},
		"force under way": {"the job under way",
			newItem(underWay, asks("force-reconcile")), true,
			`{"operation":"force-reconcile","at":"2024-03-14T12:00:00.3Z","jobID":"job-2","after":"job-2"}`},
		"abort": {"the job under way, and a time", newItem(underWay, asks("abort")), true,
			`{"operation":"abort","jobID":"job-2","after":"job-2","until":"2024-03-14T12:01:01Z"}`},
		"abort of a deletion": {"what it is the abort of", newItem(underWay, deleted, asks("abort")), true,
			`{"operation":"abort","jobID":"job-2","after":"job-2","deletion":true,"until":"2024-03-14T12:01:01Z"}`},
		"abort, idle": {reason: "nothing to note", item: newItem(done, asks("abort"))},
		"abort again": {"the time of the first goes on",
			newItem(underWay, acceptsAt("abort", noon.Add(-time.Minute)), asks("abort")), true,
			`{"operation":"abort","jobID":"job-2","after":"job-2","until":"2024-03-14T12:00:01Z"}`},
		"abort, not set": {"the accepted job is not set any more",
			newItem(done, accepts("reconcile"), asks("abort")), true, ""},
	} {
		t.Run(name, func(t *testing.T) {
			annotated("other", "stays")(tc.item)
			before := tc.item.DeepCopy()
			operation, effective := contract.AcceptOperation(tc.item, "job-3", time.Minute, noon)
			if operation != before.Annotations[v1alpha1.OperationAnnotation] || effective != tc.effective {
				t.Errorf("%s: got operation %s, effective %t", tc.reason, operation, effective)
			}
			want := before.DeepCopy()
			want.Annotations = map[string]string{"other": "stays"}
			if tc.note != "" {
				want.Annotations[contract.AcceptedAnnotation] = tc.note
			}
			failWith(t, tc.reason+"; the request goes in the same write", cmp.Diff(want, tc.item))
		})
	}
}

// Rule (deploy-items.md#operations): A job is forced until the first answer of its deployer, and anew on
// another request.
func TestForced(t *testing.T) {
	item := newItem(underWay)
	now := noon
	force := func() {
		asks(v1alpha1.OperationForceReconcile)(item)
		contract.AcceptOperation(item, "", 0, now)
	}
	expect := func(when string, force, forced bool) {
		t.Helper()
		if d := contract.Decide(item, now); d.Force != force || d.Forced != forced {
			t.Errorf("%s: found %+v", when, d)
		}
	}
	expect("before the request", false, false)
	force()
	expect("before the answer", true, false)
	contract.NoteForced(item, now)
	expect("after the answer", false, true)
	now = now.Add(time.Second)
	force()
	expect("after another request", true, false)
	contract.NoteForced(item, now)
	contract.Succeed(item, now)
	expect("after the job", false, false)
	contract.SetJob(item, "next", now)
	contract.Begin(item, false, v1alpha1.DeployerInformation{}, now)
	expect("in the next job", false, false)
}

func TestUnknownOperation(t *testing.T) {
	for operation, want := range map[string]string{
		"": "", "reconcile": "", "test-reconcile": "", "force-reconcile": "", "abort": "", "interrupt": "interrupt",
		"Reconcile": "Reconcile",
	} {
		if got := contract.UnknownOperation(newItem(asks(operation))); got != want {
			t.Errorf("operation %q: expected %q, but found %q", operation, want, got)
		}
	}
}

func TestEndAborted(t *testing.T) {
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   string
	}{
		"not begun": {"the deployer knows nothing of it", newItem(), "before its deployer was called"},
		"queued":    {"the deployer knows nothing of it", newItem(queued(0)), "before its deployer was called"},
		"too slow":  {"the deployer may still be at it", newItem(underWay), "did not finish the abort in time"},
	} {
		contract.EndAborted(tc.item, false, deployer, noon.Add(time.Minute))
		status := tc.item.Status
		if status.Phase != failed || status.JobIDFinished != status.JobID ||
			status.ObservedGeneration == 0 && name != "too slow" {
			t.Errorf("%s: the job has not ended as it should: %+v", tc.reason, status)
		}
		if status.LastError.Reason != "Aborted" || !strings.Contains(status.LastError.Message, tc.want) {
			t.Errorf("%s: expected an error with %q, but found %+v", tc.reason, tc.want, status.LastError)
		}
	}
}

func TestSame(t *testing.T) {
	deletes, forced := deletion(contract.Continue), contract.Decision{Action: contract.Continue, Force: true}
	left := contract.Decision{Action: contract.Continue, Deletion: true, LeaveBehind: true}
	for name, tc := range map[string]struct {
		reason      string
		call, again contract.Decision
		want        bool
	}{
		"nothing new":   {"the call goes on", do(contract.Continue), do(contract.Continue), true},
		"timed out":     {"the call has its deadline", do(contract.Continue), do(contract.TimedOut), true},
		"abort's time":  {"the call has its deadline", do(contract.Abort), do(contract.GiveUp), true},
		"in vain":       {"the same to itself", do(contract.GiveUp), do(contract.GiveUp), true},
		"forced before": {"the call goes on", forced, forced, true},
		"interrupted":   {"the job has ended", do(contract.Continue), do(contract.Nothing), false},
		"new job":       {"the call is for another job", do(contract.Continue), do(contract.PickUp), false},
		"deleted":       {"the call is for something else", do(contract.Continue), deletion(contract.PickUp), false},
		"asked for":     {"an operation begins", do(contract.Continue), do(contract.Accept), false},
		"aborted":       {"the job is to be ended", do(contract.Continue), do(contract.Abort), false},
		"forced":        {"the deployer is to be called in another way", do(contract.Continue), forced, false},
		"left behind":   {"nothing is to be deleted any more", deletes, left, false},
	} {
		if got := tc.call.Same(tc.again); got != tc.want {
			t.Errorf("%s: %s: found %t", name, tc.reason, got)
		}
	}
}
