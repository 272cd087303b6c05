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
	aborting := after(underWay, asks(abort), accepts("", time.Minute))
	for _, tc := range []struct {
		reason, operation string
		item              *v1alpha1.DeployItem
		execution         string
		refusal           string // part of it; empty for none
	}{
		{"nothing is under way", trigger, after(succeeded), "", ""},
		{"there was no job yet", trigger, newItem(), "", ""},
		{"a job is under way", trigger, after(underWay), "", ""},
		{"a deletion has failed", trigger, after(succeeded, append(deleting, fails(errConfiguration, 0))...), "", ""},
		{"the same is requested already", trigger, after(underWay, asks(trigger)), "", ""},
		{"no plugin serves the type", trigger, newItem(unserved, asks(trigger)), "", "no plugin here"},
		{
			"another operation is requested", trigger, after(underWay, asks(force)), "",
			`asks for "force-reconcile" already`,
		},
		{"an unknown operation is requested", trigger, after(succeeded, asks("dance")), "", `asks for "dance" already`},
		{"Landscaper is at work", trigger, after(succeeded), "shop", `its execution "shop" is at work`},

		{"nothing is under way", force, after(succeeded), "", ""},
		{"a job is under way", force, after(underWay), "", ""},
		{"a deletion is not forced", force, after(succeeded, deleting...), "", ""},
		{"the job is about to end", force, aborting, "", "is being aborted"},

		{"a job is under way", abort, after(underWay), "", ""},
		{"an accepted operation is withdrawn", abort, after(succeeded, asks(trigger), accepts("job-2", time.Minute)), "", ""},
		{"a deletion is under way", abort, after(succeeded, deleting...), "", ""},
		{"the job is not picked up", abort, newItem(jobSet("job-1", 0)), "", ""},
		{"the job has no worker", abort, newItem(jobSet("job-1", 0), queued(time.Second)), "", ""},
		{"an abort does not disturb Landscaper", abort, after(underWay), "shop", ""},
		{"there was no job", abort, newItem(), "", "it has no job to abort: there was none yet"},
		{"the job is over", abort, after(succeeded), "", "the last one is finished, with phase Succeeded"},
		{"it is being aborted", abort, aborting, "", "is being aborted already"},
	} {
		got := inspect.Refusal(tc.item, tc.operation, tc.execution, at(2*time.Minute))
		if (got != "") != (tc.refusal != "") || !strings.Contains(got, tc.refusal) {
			t.Errorf("%s, %s: expected the refusal %q, but found %q", tc.operation, tc.reason, tc.refusal, got)
		}
	}
}
