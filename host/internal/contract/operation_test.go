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
		reconcile, test   = v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile
		force, abort      = v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort
		succeeded, failed = v1alpha1.DeployItemPhaseSucceeded, v1alpha1.DeployItemPhaseFailed
	)
	done := finished(succeeded)
	underWay := pickedUp(0, v1alpha1.DeployItemPhaseProgressing)
	deletes := pickedUp(0, v1alpha1.DeployItemPhaseDeleting)
	otherJob := func(i *v1alpha1.DeployItem) { i.Status.JobID = "job-4" }
	setAgain := func(i *v1alpha1.DeployItem) { // after ours was carried out
		contract.SetJob(i, "job-3", noon)
		contract.FinishUnchanged(i, deployer, noon)
		i.Status.JobID, i.Status.JobIDFinished = "job-2", "job-2"
	}
	endsWith := func(job string) modifier {
		return func(i *v1alpha1.DeployItem) { i.Status.JobID, i.Status.JobIDFinished = job, job }
	}
	do := func(a contract.Action) contract.Decision { return contract.Decision{Action: a} }
	start := contract.Decision{Action: contract.Start, JobID: "job-3"}
	forced := func(d contract.Decision) contract.Decision { d.Force = true; return d }
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		after  time.Duration
		want   contract.Decision
	}{
		"reconcile, idle": {
			reason: "a request is accepted first", item: newItem(done, asks(reconcile)), want: do(contract.Accept),
		},
		"test-reconcile, idle": {
			reason: "Landscaper's name for the same", item: newItem(done, asks(test)), want: do(contract.Accept),
		},
		"force-reconcile, idle": {
			reason: "a request is accepted first", item: newItem(done, asks(force)), want: do(contract.Accept),
		},
		"abort, idle": {
			reason: "a request without effect is taken away, too", item: newItem(done, asks(abort)), want: do(contract.Accept),
		},
		"unknown": {
			reason: "what nobody knows is left alone", item: newItem(done, asks("interrupt")), want: do(contract.Nothing),
		},
		"reconcile, under way": {
			reason: "a new job would take the one under way from whoever waits for it",
			item:   newItem(underWay, asks(reconcile)), want: do(contract.Continue),
		},
		"force-reconcile, under way": {
			reason: "the job under way is the one to be forced", item: newItem(underWay, asks(force)), want: do(contract.Accept),
		},
		"force-reconcile, deletion": {
			reason: "a deletion cannot be forced", item: newItem(deletes, deleted, asks(force)),
			want: contract.Decision{Action: contract.Continue, Deletion: true},
		},
		"abort, under way": {
			reason: "an abort does not wait", item: newItem(underWay, asks(abort)), want: do(contract.Accept),
		},

		"reconcile accepted":      {reason: "the job is to be set", item: newItem(done, accepts(reconcile)), want: start},
		"test-reconcile accepted": {reason: "the job is to be set", item: newItem(done, accepts(test)), want: start},
		"force accepted": {
			reason: "the job is to be set and forced", item: newItem(done, accepts(force)), want: forced(start),
		},
		"first job": {
			reason: "an item without a Landscaper gets its first job this way", item: newItem(endsWith(""), accepts(reconcile)),
			want: start,
		},
		"reconcile accepted, job done": {
			reason: "a job that was set is not set again",
			item:   newItem(done, accepts(reconcile), endsWith("job-3")), want: do(contract.Nothing),
		},
		"reconcile accepted, but overtaken": {
			reason: "Landscaper has set a job meanwhile: that does what was asked for",
			item:   newItem(done, accepts(reconcile), otherJob), want: do(contract.PickUp),
		},
		"reconcile accepted, same job once more": {
			reason: "a Landscaper that sets the same job again must not be answered with ours again, for ever",
			item:   newItem(done, accepts(reconcile), setAgain), want: do(contract.Nothing),
		},
		"force accepted, under way": {
			reason: "the job goes on by force", item: newItem(underWay, accepts(force)), want: forced(do(contract.Continue)),
		},
		"force accepted, new job": {
			reason: "the force was for the job before", item: newItem(underWay, accepts(force), otherJob),
			want: do(contract.PickUp),
		},
		"force accepted, not begun": {
			reason: "a job that was not picked up is, by force and never skipped", item: newItem(accepts(force)),
			want: forced(do(contract.PickUp)),
		},
		"force accepted, nothing changed": {
			reason: "force means although nothing has changed",
			item:   newItem(inPhase(succeeded), onChangeOnly(3), accepts(force)), want: forced(do(contract.PickUp)),
		},
		"force-reconcile, to be aborted": {
			reason: "an abort is not taken back", item: newItem(underWay, accepts(abort), asks(force)), want: do(contract.Abort),
		},
		"force accepted, finished": {
			reason: "the force was for the job that is finished", item: newItem(underWay, accepts(force), finished(succeeded)),
			want: do(contract.EndedElsewhere),
		},
		"force accepted, deletion": {
			reason: "a deletion is what it is", item: newItem(deletes, deleted, accepts(force)),
			want: contract.Decision{Action: contract.Continue, Deletion: true},
		},
		"abort accepted": {
			reason: "the deployer is called for it", item: newItem(underWay, accepts(abort)), want: do(contract.Abort),
		},
		"abort accepted, timed out": {
			reason: "an abort has its own time", item: newItem(underWay, accepts(abort), timeout("1s")), after: 30 * time.Second,
			want: do(contract.Abort),
		},
		"abort takes too long": {
			reason: "an aborted job ends", item: newItem(underWay, accepts(abort), timeout("none")), after: 62 * time.Second,
			want: do(contract.GiveUp),
		},
		"abort accepted, not begun": {
			reason: "its deployer knows nothing of it", item: newItem(accepts(abort)), want: do(contract.GiveUp),
		},
		"abort accepted, interrupted": {
			reason: "somebody else has ended the job",
			item:   newItem(underWay, accepts(abort), finished(failed)), want: do(contract.EndedElsewhere),
		},
		"abort accepted, new job": {
			reason: "the abort was for the job before", item: newItem(underWay, accepts(abort), otherJob),
			want: do(contract.PickUp),
		},
		"abort accepted, deletion": {
			reason: "the abort was not for the deletion", item: newItem(underWay, accepts(abort), deleted),
			want: contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"abort of a deletion": {
			reason: "a deletion can be aborted, too", item: newItem(deletes, deleted, accepts(abort)),
			want: contract.Decision{Action: contract.Abort, Deletion: true},
		},
		"note of somebody else": {
			reason: "what is no note of ours means nothing",
			item:   newItem(done, annotated(contract.AcceptedAnnotation, "reconcile")), want: do(contract.Nothing),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon.Add(tc.after))))
		})
	}
}

func TestDecideFailedDeletion(t *testing.T) {
	gone := failedWith(contract.OperationResolve, contract.ReasonTargetNotFound)
	leave := annotated(v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	begun := func(i *v1alpha1.DeployItem) { contract.Begin(i, true, deployer, noon) }
	nextJob := func(i *v1alpha1.DeployItem) { i.Status.JobID, i.Status.JobIDFinished = "job-3", "job-3" }
	deletion := func(a contract.Action) contract.Decision { return contract.Decision{Action: a, Deletion: true} }
	leaving := func(a contract.Action) contract.Decision {
		return contract.Decision{Action: a, Deletion: true, LeaveBehind: true}
	}
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   contract.Decision
	}{
		"target gone": {
			reason: "it is deleted when the Target is back", item: newItem(deleted, gone), want: deletion(contract.Restart),
		},
		"context gone": {
			reason: "it is deleted when the Context is back",
			item:   newItem(deleted, failedWith(contract.OperationResolve, contract.ReasonContextNotFound)),
			want:   deletion(contract.Restart),
		},
		"other reason": {
			reason: "somebody has to set a job", item: newItem(deleted, failedWith("Delete", "Refused")),
			want: deletion(contract.Nothing),
		},
		"plugin's reason": {
			reason: "what a plugin says does not restart a job",
			item:   newItem(deleted, failedWith("Delete", contract.ReasonTargetNotFound)), want: deletion(contract.Nothing),
		},
		"not deleted": {
			reason: "Landscaper sets another job when the user has mended it", item: newItem(gone),
			want: contract.Decision{Action: contract.Nothing},
		},
		"to be left": {
			reason: "the way out that the error names works at once", item: newItem(deleted, gone, leave, hasFinalizer),
			want: leaving(contract.Start),
		},
		"left already": {
			reason: "somebody else holds the item", item: newItem(deleted, gone, leave), want: leaving(contract.Restart),
		},
		"left in vain": {
			reason: "a job that was to leave it behind has failed by a hook, and another one would too",
			item:   newItem(deleted, leave, begun, failedWith("Hook", "Refused"), hasFinalizer), want: leaving(contract.Nothing),
		},
		"left in vain, next job": {
			reason: "the last job was not one that was to leave it behind",
			item: newItem(
				deleted, leave, begun, failedWith("Hook", "Refused"), hasFinalizer, nextJob,
			), want: leaving(contract.Start),
		},
		"to be left since": {
			reason: "the annotation came after the job had begun",
			item:   newItem(deleted, begun, failedWith("Delete", "Refused"), leave, hasFinalizer), want: leaving(contract.Start),
		},
		"failed otherwise": {
			reason: "it is a way out of every failed deletion",
			item:   newItem(deleted, failedWith("Delete", "Refused"), leave, hasFinalizer), want: leaving(contract.Start),
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, contract.Decide(tc.item, noon)))
		})
	}
}

func TestAcceptOperation(t *testing.T) {
	underWay := pickedUp(0, v1alpha1.DeployItemPhaseProgressing)
	done := finished(v1alpha1.DeployItemPhaseSucceeded)
	cases := map[string]struct {
		reason    string
		item      *v1alpha1.DeployItem
		effective bool
		note      string
	}{
		"reconcile": {
			reason: "the job to set, and the one it follows", item: newItem(done, asks("reconcile")), effective: true,
			note: `{"operation":"reconcile","jobID":"job-3","after":"job-2"}`,
		},
		"force under way": {
			reason: "the job under way", item: newItem(underWay, asks("force-reconcile")), effective: true,
			note: `{"operation":"force-reconcile","jobID":"job-2","after":"job-2"}`,
		},
		"abort": {
			reason: "the job under way, and a time", item: newItem(underWay, asks("abort")), effective: true,
			note: `{"operation":"abort","jobID":"job-2","after":"job-2","until":"2024-03-14T12:01:01Z"}`,
		},
		"abort of a deletion": {
			reason: "what it is the abort of", item: newItem(underWay, deleted, asks("abort")), effective: true,
			note: `{"operation":"abort","jobID":"job-2","after":"job-2","deletion":true,"until":"2024-03-14T12:01:01Z"}`,
		},
		"abort, idle": {reason: "nothing to note", item: newItem(done, asks("abort"))},
	}
	for name, tc := range cases {
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
	cases := map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   string
	}{
		"not begun": {reason: "the deployer knows nothing of it", item: newItem(), want: "before its deployer was called"},
		"queued": {
			reason: "the deployer knows nothing of it", item: newItem(queued(0)), want: "before its deployer was called",
		},
		"too slow": {
			reason: "says that the deployer may still be at it", item: newItem(pickedUp(0, v1alpha1.DeployItemPhaseProgressing)),
			want: "did not finish the abort in time",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			contract.EndAborted(tc.item, false, deployer, noon.Add(time.Minute))
			status := tc.item.Status
			if status.Phase != v1alpha1.DeployItemPhaseFailed || status.JobIDFinished != status.JobID ||
				status.ObservedGeneration == 0 && name != "too slow" {
				t.Errorf("%s: the job has not ended as it should: %+v", tc.reason, status)
			}
			if status.LastError.Reason != "Aborted" || !strings.Contains(status.LastError.Message, tc.want) {
				t.Errorf("%s: expected an error with %q, but found %+v", tc.reason, tc.want, status.LastError)
			}
		})
	}
}

func TestSame(t *testing.T) {
	do := func(a contract.Action) contract.Decision { return contract.Decision{Action: a} }
	cases := map[string]struct {
		reason      string
		call, again contract.Decision
		want        bool
	}{
		"nothing new": {reason: "the call goes on", call: do(contract.Continue), again: do(contract.Continue), want: true},
		"timed out": {
			reason: "the call has its deadline", call: do(contract.Continue), again: do(contract.TimedOut), want: true,
		},
		"abort's time": {
			reason: "the call has its deadline", call: do(contract.Abort), again: do(contract.GiveUp), want: true,
		},
		"in vain":     {reason: "the same to itself", call: do(contract.GiveUp), again: do(contract.GiveUp), want: true},
		"interrupted": {reason: "the job has ended", call: do(contract.Continue), again: do(contract.Nothing)},
		"new job":     {reason: "the call is for another job", call: do(contract.Continue), again: do(contract.PickUp)},
		"deleted": {
			reason: "the call is for something else", call: do(contract.Continue),
			again: contract.Decision{Action: contract.PickUp, Deletion: true},
		},
		"asked for": {reason: "an operation begins", call: do(contract.Continue), again: do(contract.Accept)},
		"aborted":   {reason: "the job is to be ended", call: do(contract.Continue), again: do(contract.Abort)},
		"forced": {
			reason: "the deployer is to be called in another way", call: do(contract.Continue),
			again: contract.Decision{Action: contract.Continue, Force: true},
		},
		"left behind": {
			reason: "nothing is to be deleted any more", call: contract.Decision{Action: contract.Continue, Deletion: true},
			again: contract.Decision{Action: contract.Continue, Deletion: true, LeaveBehind: true},
		},
		"forced before": {
			reason: "the call goes on", call: contract.Decision{Action: contract.Continue, Force: true},
			again: contract.Decision{Action: contract.Continue, Force: true}, want: true,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			failWith(t, tc.reason, cmp.Diff(tc.want, tc.call.Same(tc.again)))
		})
	}
}
