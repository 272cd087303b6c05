package e2e

import (
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestStoppingHostLetsCallsFinish: a call that is under way when the host is asked to stop ends as usual, its job, too,
// and nobody makes it again.
// Rule (operators-guide.md#upgrade): A stopping host lets calls finish within `timeouts.shutdown`, and no replica
// repeats them.
func TestStoppingHostLetsCallsFinish(t *testing.T) {
	const millis = 12_000
	for name, settings := range map[string][]string{"with locks": nil, "without locks": {`locking: "off"`}} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, settings...)
			counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
			first := f.start(1)[0]
			item := counts.newItem("item", millis, 0, 0)
			create(t, item)
			setJob(t, item)
			counts.waitBegun(item, 1)
			f.stop(first)
			if got := read(t, item); got.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || got.Status.JobIDFinished != got.Status.JobID {
				t.Errorf("the stopping host has left the item %s, with the error %v", got.Status.Phase, got.Status.LastError)
			}
			f.start(1)
			witness := counts.newItem("witness", 0, 0, 0)
			carryOut(t, witness, v1alpha1.DeployItemPhaseSucceeded)
			if calls := counts.begun(item); len(calls) != 1 {
				t.Errorf("expected one call, but found %v", calls)
			}
			counts.check()
		})
	}
}
