package inspect_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/inspect"
)

// remembered is what a replica remembers of the first job of the item of these tests.
func remembered() inspect.Recollection {
	last := at(6 * time.Second)
	return inspect.Recollection{Replica: "pergola-1", Jobs: []control.Job{
		{UID: "uid", JobID: "job-1", LeftOut: 7, LeftOutAfter: 2, Timeline: []control.JobEntry{
			{Time: at(2100 * time.Millisecond), Kind: "Lock", Message: "taken", Times: 1, Seconds: 0.012},
			{Time: at(2200 * time.Millisecond), Kind: "Call", Message: "Reconcile\x1b[31m", Times: 3, Seconds: 1.5, Last: &last},
			{Time: at(9 * time.Second), Kind: "Ended", Message: "Failed", Times: 1},
		}},
		{UID: "uid", JobID: "job-0", Timeline: []control.JobEntry{{Time: at(-time.Hour), Kind: "Ended", Message: "Succeeded", Times: 1}}},
		{UID: "other", JobID: "job-1", Timeline: []control.JobEntry{{Time: at(0), Kind: "Ended", Message: "of another item", Times: 1}}},
	}}
}

func TestTraceText(t *testing.T) {
	t.Parallel()
	silent := inspect.Recollection{Replica: "pergola-2", Err: errors.New("its pod is not running")}
	expectGolden(t, "trace.golden.txt", inspect.NewTrace(everything(), "", []inspect.Recollection{remembered(), silent}).Text())
}

func TestTrace(t *testing.T) {
	t.Parallel()
	running := inspect.Evidence{Item: after(underWay)}
	for _, tc := range []struct {
		reason   string
		evidence inspect.Evidence
		jobID    string
		replicas []inspect.Recollection
		want     []string // the kinds
	}{
		{reason: "no job yet", evidence: inspect.Evidence{Item: newItem()}},
		{reason: "what the item tells", evidence: running, want: []string{"Set", "PickedUp", "Waits"}},
		{reason: "a job that nobody has picked up has nothing of the one before", evidence: inspect.Evidence{Item: after(broken, jobSet("job-2", time.Minute))}, want: []string{"Set"}},
		{reason: "an older job is in a journal alone", evidence: running, jobID: "job-0", replicas: []inspect.Recollection{remembered()}, want: []string{"Ended"}},
		{reason: "nobody knows the job", evidence: running, jobID: "job-9", replicas: []inspect.Recollection{remembered()}},
		{
			reason: "all together, in order", evidence: running, replicas: []inspect.Recollection{remembered()},
			want: []string{"Set", "PickedUp", "Lock", "Call", "LeftOut", "Waits", "Ended"},
		},
	} {
		var kinds []string
		for _, m := range inspect.NewTrace(tc.evidence, tc.jobID, tc.replicas).Moments {
			kinds = append(kinds, m.Kind)
		}
		if diff := cmp.Diff(tc.want, kinds); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
		}
	}
}
