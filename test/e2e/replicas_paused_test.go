package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestPausedReplica: a replica that stands still for longer than its Lease and goes on then finds its lock in another's hands. It must
// neither write nor call what it has lost, and goes on with other work.
func TestPausedReplica(t *testing.T) {
	f := newFleet(t, "timeouts: {lease: "+shortLease.String()+"}")
	f.start(2)
	counts := &counts{t: t, namespace: useAuditedNamespace(t), dir: t.TempDir()}
	mark := auditMark(t)
	item := counts.newItem("paused-"+uuid.NewString()[:8], 20, 25, 200) // 5 seconds, and those of which it stands still
	create(t, item)
	jobID := setJob(t, item)
	counts.waitBegun(item, 3)
	paused := f.holder(item)
	plugin := pid(t, paused.Host, "counter")

	if err := paused.Pause(); err != nil {
		t.Fatal(err)
	}
	waitFor(t, item, "called elsewhere", func(*v1alpha1.DeployItem) bool {
		return slices.ContainsFunc(counts.begun(item), func(c call) bool { return c.PID != plugin })
	})
	taken := len(counts.begun(item))
	if err := paused.Resume(); err != nil {
		t.Fatal(err)
	}

	if fresh := read(t, item); fresh.Status.JobIDFinished == jobID {
		t.Fatalf("the job has ended before the replica goes on: the test means nothing: %s", describe(fresh))
	}
	eventually(t, "the replica to notice that it has lost the lock", func(context.Context) (string, error) {
		if lost := f.metric(paused, "pergola_locks_lost_total"); lost != 1 {
			return fmt.Sprintf("%v locks lost", lost), nil
		}
		return "", nil
	})
	if finished := waitFinished(t, item, jobID); finished.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		t.Errorf("expected the job to succeed, but found %s", describe(finished))
	}
	counts.check(item)
	for _, c := range counts.begun(item)[taken:] {
		if c.PID == plugin {
			t.Errorf("the replica calls the deployer for what it has lost: %+v", c)
		}
	}
	f.checkPaused(mark, item, paused)
	f.checkGoesOn(counts, paused)
}

// checkPaused: from the takeover on the item was written by the new holder only, and the job has ended once.
func (f *fleet) checkPaused(mark int64, item *v1alpha1.DeployItem, paused *testenv.Replica) {
	f.t.Helper()
	requests := f.requestsOf(mark)
	locks := lockHistories(f.t, requests)
	checkLocks(f.t, locks)
	if checked := checkFenced(f.t, requests, locks); checked < 3 { // picked up, picked up again, finished
		f.t.Errorf("only %d writes were checked", checked)
	}
	history := locks[lockName(item)]
	takeover := slices.IndexFunc(history, func(w lockWrite) bool { return w.holder != "" && w.holder != paused.Pod.Name })
	if takeover < 1 {
		f.t.Fatalf("the lock was not taken over: %+v", history)
	}
	if after := history[takeover:]; slices.ContainsFunc(after, func(w lockWrite) bool { return w.by == paused.Pod.Name }) {
		f.t.Errorf("the replica writes the lock that it has lost: %+v", after)
	}
	ended := 0
	for _, r := range requests {
		if r.ObjectRef.Name == item.Name && r.succeeded() && strings.Contains(string(r.RequestObject), `"jobIDFinished"`) {
			ended++
		}
	}
	if ended != 1 {
		f.t.Errorf("the job has ended %d times", ended)
	}
}

// checkGoesOn: the replica still carries out jobs, now alone.
func (f *fleet) checkGoesOn(counts *counts, paused *testenv.Replica) {
	f.t.Helper()
	for _, r := range slices.Clone(f.live) {
		if r != paused {
			f.stop(r)
		}
	}
	carryOut(f.t, counts.newItem("paused-"+uuid.NewString()[:8], 0, 0, 0), v1alpha1.DeployItemPhaseSucceeded)
}
