package e2e

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTakeover: when a replica is told to stop, or its pod is gone, another one goes on with its jobs at once. No
// Lease expires as soon as that.
func TestTakeover(t *testing.T) {
	f := newFleet(t, "timeouts: {lease: 1h}")
	f.start(3)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	for _, c := range []struct {
		name string
		end  func(*testenv.Replica)
	}{
		{"sigterm", f.terminate},
		{"pod-deleted", func(r *testenv.Replica) {
			f.kill(r)
			f.deletePod(r)
		}},
	} {
		f.takeOver(counts.newItem(c.name, 0, 1, 3_600_000), counts, c.end)
	}
	counts.check()
}

// takeOver lets a job begin that is called again in an hour and holds its lock until then, ends its replica, and
// returns when another one has finished the job.
func (f *fleet) takeOver(item *v1alpha1.DeployItem, counts *counts, end func(*testenv.Replica)) {
	f.t.Helper()
	create(f.t, item)
	jobID := setJob(f.t, item)
	waitFor(f.t, item, "in progress", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing
	})
	holder, ended := f.holder(item), time.Now()
	end(holder)
	begun := counts.waitBegun(item, 2)
	f.t.Logf("%s: called elsewhere %s after that", item.Name, begun[1].Time.Sub(ended).Round(time.Millisecond))
	if finished := waitFinished(f.t, item, jobID); finished.Status.Phase != succeeded {
		f.t.Errorf("expected the job to succeed, but found %s", describe(finished))
	}
	if begun[0].PID == begun[1].PID {
		f.t.Errorf("the job goes on in the process that it had: %+v", begun)
	}
}

// TestTakeoverAfterLease: a replica that stands still for longer than its Lease finds its lock in another's hands
// when it goes on. It does not call for what it has lost, and goes on with other work: also with that of a replica
// whose node is lost, so that its pod stays.
func TestTakeoverAfterLease(t *testing.T) {
	f := newFleet(t, "timeouts: {lease: 3s}")
	f.start(2)
	counts := &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}
	item := counts.newItem("paused", 20, 1000, 200) // 200 seconds, of which the end is not waited for
	create(t, item)
	jobID := setJob(t, item)
	counts.waitBegun(item, 3)
	paused := f.holder(item)
	plugin := pid(t, paused.Host, "counter")
	ofPaused := func(c call) bool { return c.PID == plugin }

	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	var taken int
	eventually(t, "another replica to call", func(context.Context) (string, error) {
		calls := counts.begun(item)
		if taken = len(calls); len(slices.DeleteFunc(calls, ofPaused)) == 0 {
			return "there are calls of one", nil
		}
		return "", nil
	})
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}
	// It hears that from the watch, or meets a conflict when it gives the lock back.
	eventually(t, "the replica to notice that it has lost the lock", func(context.Context) (string, error) {
		if locks := f.metric(paused, "pergola_locks_held"); locks != 0 {
			return fmt.Sprintf("%v locks held", locks), nil
		}
		return "", nil
	})
	interrupt(t, item, jobID)
	eventually(t, "the lock to be given up", func(context.Context) (string, error) {
		if lock := readLock(t, item); lock == nil || lock.Spec.PodName != "" {
			return fmt.Sprintf("lock %+v", lock), nil
		}
		return "", nil
	})
	if calls := counts.begun(item)[taken:]; slices.ContainsFunc(calls, ofPaused) {
		t.Errorf("the replica calls the deployer for what it has lost: %+v", calls)
	}
	f.takeOver(counts.newItem("lost", 0, 1, 3_600_000), counts, f.kill)
	counts.check()
}
