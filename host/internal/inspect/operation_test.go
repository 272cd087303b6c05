package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestAsk(t *testing.T) {
	t.Parallel()
	const trigger, force, abort = v1alpha1.OperationReconcile, v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort
	deleting := []step{deleted, jobSet("job-2", time.Minute), pickedUp(time.Minute)}
	busy := inspect.Execution{Name: "shop", UnderWay: true}
	for _, tc := range []struct {
		reason    string
		operation string
		item      *v1alpha1.DeployItem
		execution inspect.Execution
		refusal   string // part of it; empty for none
		asked     bool
		next      string // part of it
	}{
		{reason: "nothing is under way", operation: trigger, item: after(succeeded), next: "a new job begins when a host sees this"},
		{reason: "there was no job yet", operation: trigger, item: newItem(), next: "a new job begins when a host sees this"},
		{reason: "a job is under way", operation: trigger, item: after(underWay), next: "a new job begins when the one under way has ended"},
		{reason: "a deletion has failed", operation: trigger, item: after(succeeded, append(deleting, fails(errConfiguration, 2*time.Minute))...), next: "a new job that deletes begins when a host"},
		{reason: "somebody asks for it already", operation: trigger, item: after(underWay, asks(trigger)), asked: true, next: "has ended"},
		{reason: "nobody would hear it", operation: trigger, item: newItem(unserved, asks(trigger)), refusal: "no plugin here"},
		{reason: "somebody asks for something else", operation: trigger, item: after(underWay, asks(force)), refusal: `asks for "force-reconcile" already`},
		{reason: "somebody asks for what nobody knows", operation: trigger, item: after(succeeded, asks("dance")), refusal: `asks for "dance" already`},
		{reason: "Landscaper would put its own job in the place", operation: trigger, item: after(succeeded), execution: busy, refusal: `its execution "shop" is at work`},
		{reason: "Landscaper is done", operation: trigger, item: after(succeeded), execution: inspect.Execution{Name: "shop"}, next: "a new job begins"},

		{reason: "nothing is under way", operation: force, item: after(succeeded), next: "a new job, by force, begins when a host"},
		{reason: "a job is under way", operation: force, item: after(underWay), next: "goes on by force, and its running call is cancelled"},
		{reason: "a deletion is not forced", operation: force, item: after(succeeded, deleting...), next: "a new job that deletes begins when the one under way has ended"},
		{reason: "the job is about to end", operation: force, item: after(underWay, asks(abort), accepts("", time.Minute)), refusal: "is being aborted"},

		{reason: "a job is under way", operation: abort, item: after(underWay), next: "its running call is cancelled, and the job ends as Failed"},
		{reason: "a deletion is under way", operation: abort, item: after(succeeded, deleting...), next: "ends as DeleteFailed"},
		{reason: "nobody has picked up the job", operation: abort, item: newItem(jobSet("job-1", 0)), next: "ends as Failed before its deployer begins"},
		{reason: "the job has no worker", operation: abort, item: newItem(jobSet("job-1", 0), queued(time.Second)), next: "before its deployer begins"},
		{reason: "an abort does not disturb Landscaper", operation: abort, item: after(underWay), execution: busy, next: "its running call is cancelled"},
		{reason: "there was no job", operation: abort, item: newItem(), refusal: "it has no job to abort: there was none yet"},
		{reason: "the job is over", operation: abort, item: after(succeeded), refusal: "it has no job to abort: the last one is finished, with phase Succeeded"},
		{reason: "it is being aborted", operation: abort, item: after(underWay, asks(abort), accepts("", time.Minute)), refusal: "is being aborted already"},
	} {
		got := inspect.Ask(tc.item, tc.operation, tc.execution, at(2*time.Minute))
		if (got.Refusal != "") != (tc.refusal != "") || !strings.Contains(got.Refusal, tc.refusal) {
			t.Errorf("%s, %s: expected the refusal %q, but found %q", tc.operation, tc.reason, tc.refusal, got.Refusal)
		}
		if got.Asked != tc.asked || (got.Next != "") != (tc.next != "") || !strings.Contains(got.Next, tc.next) {
			t.Errorf("%s, %s: expected %q, %v, but found %q, %v", tc.operation, tc.reason, tc.next, tc.asked, got.Next, got.Asked)
		}
	}
}
