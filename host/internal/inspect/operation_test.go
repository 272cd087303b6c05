package inspect_test

import (
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestRefusal(t *testing.T) {
	t.Parallel()
	const trigger, force, abort = v1alpha1.OperationReconcile, v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort
	deleting := []step{deleted, jobSet("job-2", time.Minute), pickedUp(time.Minute)}
	for _, tc := range []struct {
		reason    string
		operation string
		item      *v1alpha1.DeployItem
		execution string
		refusal   string // part of it; empty for none
	}{
		{reason: "nothing is under way", operation: trigger, item: after(succeeded)},
		{reason: "there was no job yet", operation: trigger, item: newItem()},
		{reason: "a job is under way", operation: trigger, item: after(underWay)},
		{reason: "a deletion has failed", operation: trigger, item: after(succeeded, append(deleting, fails(errConfiguration, 2*time.Minute))...)},
		{reason: "somebody asks for it already", operation: trigger, item: after(underWay, asks(trigger))},
		{reason: "nobody would hear it", operation: trigger, item: newItem(unserved, asks(trigger)), refusal: "no plugin here"},
		{reason: "somebody asks for something else", operation: trigger, item: after(underWay, asks(force)), refusal: `asks for "force-reconcile" already`},
		{reason: "somebody asks for what nobody knows", operation: trigger, item: after(succeeded, asks("dance")), refusal: `asks for "dance" already`},
		{reason: "Landscaper would put its own job in the place", operation: trigger, item: after(succeeded), execution: "shop", refusal: `its execution "shop" is at work`},

		{reason: "nothing is under way", operation: force, item: after(succeeded)},
		{reason: "a job is under way", operation: force, item: after(underWay)},
		{reason: "a deletion is not forced", operation: force, item: after(succeeded, deleting...)},
		{reason: "the job is about to end", operation: force, item: after(underWay, asks(abort), accepts("", time.Minute)), refusal: "is being aborted"},

		{reason: "a job is under way", operation: abort, item: after(underWay)},
		{reason: "a deletion is under way", operation: abort, item: after(succeeded, deleting...)},
		{reason: "nobody has picked up the job", operation: abort, item: newItem(jobSet("job-1", 0))},
		{reason: "the job has no worker", operation: abort, item: newItem(jobSet("job-1", 0), queued(time.Second))},
		{reason: "an abort does not disturb Landscaper", operation: abort, item: after(underWay), execution: "shop"},
		{reason: "there was no job", operation: abort, item: newItem(), refusal: "it has no job to abort: there was none yet"},
		{reason: "the job is over", operation: abort, item: after(succeeded), refusal: "it has no job to abort: the last one is finished, with phase Succeeded"},
		{reason: "it is being aborted", operation: abort, item: after(underWay, asks(abort), accepts("", time.Minute)), refusal: "is being aborted already"},
	} {
		got := inspect.Refusal(tc.item, tc.operation, tc.execution, at(2*time.Minute))
		if (got != "") != (tc.refusal != "") || !strings.Contains(got, tc.refusal) {
			t.Errorf("%s, %s: expected the refusal %q, but found %q", tc.operation, tc.reason, tc.refusal, got)
		}
	}
}
