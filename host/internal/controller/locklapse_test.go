package controller

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestLockLeftByALapse: a lock that was counted as lost over an outage still names this replica. When the item is
// none of this host's any more afterwards, nobody else can have the lock before it is given back here.
func TestLockLeftByALapse(t *testing.T) {
	for _, tc := range []struct {
		reason  string
		trouble trouble
	}{
		{"the API server answers, but was late", noTrouble},
		{"no write comes through", refused},
		{"writes are done, but their answers are lost", unanswered},
	} {
		b := newBench(t, answers(func() (*plugin.Outcome, error) { return waits("something") }))
		here := newTold(newPeer(b, "here"), b.plugin)
		b.setJob()
		here.hearItem()
		here.work()
		if holder, _ := b.holder(); holder != "here" {
			t.Fatalf("expected a job that waits, but its lock is held by %q", holder)
		}
		here.trouble = tc.trouble
		here.others.change(func(o *fakeReplicas) { o.invalid = true })
		here.locker.ReplicasChanged()
		here.work()
		here.others.change(func(o *fakeReplicas) { o.invalid = false })
		here.plugin(func(p *fakePlugins) { p.serving = nil })
		here.trouble = noTrouble
		here.locker.ReplicasChanged()
		for range 5 {
			here.hearAll()
			here.work()
			b.clock.Step(unlockRetry)
		}
		if holder, _ := b.holder(); holder != "" {
			t.Errorf("%s: the lock is held by %q, which is alive and does not want it", tc.reason, holder)
		}
	}
}

// TestUnservedDuringTheCall: a lock in use when its type is served no more is given back when the call has ended.
func TestUnservedDuringTheCall(t *testing.T) {
	b := newBench(t, nil)
	here := newTold(newPeer(b, "here"), b.plugin)
	b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		here.plugin(func(p *fakePlugins) { p.serving = nil })
		if holder, _ := b.holder(); holder != "here" {
			t.Errorf("the lock of a job in its call is held by %q", holder)
		}
		return waits("something")
	}
	b.setJob()
	wait := here.look(t.Context())
	if holder, _ := b.holder(); holder != "" {
		t.Errorf("expected the lock to be free after the call, but it is held by %q, for another %s", holder, wait)
	}
}

// TestUnknownOperationIsReported: also when it is asked for while another replica than the one that reports it works
// on the item, so that this one need not read the item for anything else.
func TestUnknownOperationIsReported(t *testing.T) {
	b := newBench(t, nil)
	reports, works := newPeer(b, "reports"), newPeer(b, "works")
	works.others.rank = 1
	b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		b.answer = succeeds
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "something"}}, nil
	}
	b.setJob()
	works.look(t.Context())
	b.annotate(b.item, v1alpha1.OperationAnnotation, "dance")
	for range 3 {
		reports.hear()
		reports.look(t.Context())
		b.clock.Step(time.Second)
		works.look(t.Context())
	}
	reported := 0
	for len(b.events.Events) > 0 {
		if strings.Contains(<-b.events.Events, "UnknownOperation") {
			reported++
		}
	}
	if item := b.read(); item.Status.JobID != item.Status.JobIDFinished || reported != 1 {
		t.Errorf("expected a job that ends, and one event of the unknown operation, but found %d, %s", reported, describe(item))
	}
}
