package e2e

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// stopLimit is how long it may take until a plugin hears that its call is cancelled. It is a second; a loaded
// machine gets more.
const stopLimit = 5 * time.Second

// TestInterruption: whatever takes the place of a job ends its call: an interruption, which the host lets stand,
// another job, and a deletion.
func TestInterruption(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe")})
	dir := t.TempDir()
	item := start(t, newItem(newNamespace(t), "item", probeType, probeConfig(dir, "blockUntil")))
	first := item.Status.JobID
	waitCalled(t, dir, "reconcile "+first)

	begun := time.Now()
	interrupted := interrupt(t, read(t, item), first)
	waitCalled(t, dir, "stopped "+first)
	if took := time.Since(begun); took > stopLimit {
		t.Errorf("expected the plugin to hear of the interruption within a second, but it took %s", took)
	}
	checkInterruption(t, interrupted)

	second := setJob(t, item)
	waitCalled(t, dir, "reconcile "+second)
	third := uuid.NewString()
	patchStatus(t, item, map[string]any{"jobID": third})
	waitCalled(t, dir, "reconcile "+third)
	deleteObject(t, item)
	waitCalled(t, dir, "delete "+third)
	touch(t, dir+"/blockUntil")
	waitGone(t, item)
	checkCalls(t, dir, "reconcile "+first, "stopped "+first, "reconcile "+second, "stopped "+second,
		"reconcile "+third, "stopped "+third, "delete "+third)
}

// checkInterruption checks that the host changes nothing but its own conditions, which tell of the interruption.
func checkInterruption(t *testing.T, interrupted *v1alpha1.DeployItem) {
	t.Helper()
	settled := waitFor(t, interrupted, "stalled", func(i *v1alpha1.DeployItem) bool {
		return conditionOf(i, "Stalled").Status == v1alpha1.ConditionTrue
	})
	stalled := conditionOf(settled, "Stalled")
	if stalled.Message != interrupted.Status.LastError.Message || conditionOf(settled, "Reconciling").Type != "" {
		t.Errorf("the conditions do not tell of the interruption: %s", marshal(t, settled.Status.Conditions))
	}
	checkUntouched(t, settled)
	settled.Status.Conditions = interrupted.Status.Conditions
	if diff := cmp.Diff(interrupted.Status, settled.Status); diff != "" {
		t.Errorf("the host has changed what the interruption says (-before +after):\n%s", diff)
	}
}
