package controller

import (
	"context"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// turnDown ends the plugin of a replica, and lets both hear of it: the other one comes first now.
func turnDown(r, other *told) {
	r.plugin(func(p *fakePlugins) { p.down = map[string]bool{r.name: true} })
	r.others.change(func(o *fakeReplicas) { o.rank = 1 })
	other.others.change(func(o *fakeReplicas) { o.rank = 0 })
	r.locker.ReplicasChanged()
	other.locker.ReplicasChanged()
}

// TestDownPluginTakesNoJob: a replica whose plugin does not run has all the time in the world, and must not take jobs
// because of that.
func TestDownPluginTakesNoJob(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		busy         bool
	}{
		{"that is new", "the other one has not even looked", false},
		{"that waits for its turn", "the slot of the other one is taken for a moment, and the slots of a plugin that is down never are", true},
	} {
		t.Run("a job "+tc.name, func(t *testing.T) {
			b := newBench(t, succeeds)
			runs, down := newTold(newPeer(b, "runs"), b.plugin), newTold(newPeer(b, "down"), b.plugin)
			turnDown(down, runs)
			jobID := b.setJob()
			if tc.busy {
				runs.slots.take(slotKey(1), own)
				runs.look(t.Context())
			}
			down.hear()
			wait := down.look(t.Context())
			if got := down.reads + down.locks + down.writes; got != 0 || wait != pluginPoll {
				t.Errorf("%s: expected another look after %s without a request, but found %d requests, and the next look after %s",
					tc.reason, pluginPoll, got, wait)
			}
			if tc.busy {
				runs.slots.giveBack()
				runs.router.turn(runs.name, runs.slots.settle(slotKey(1), false))
			}
			runs.hear()
			runs.look(t.Context())
			if item := b.read(); item.Status.JobIDFinished != jobID || item.Status.Deployer.Identity != "runs" {
				t.Errorf("%s: expected the job to be carried out where the plugin runs, but found %s of %q",
					tc.reason, describe(item), item.Status.Deployer.Identity)
			}
		})
	}
}

// TestDownPluginGivesItsLockBack: the job of a replica whose plugin has gone down goes on where the plugin runs.
func TestDownPluginGivesItsLockBack(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		inCall       bool
		goesOn       time.Duration
	}{
		{"between two calls", "the lock is given back when the job would go on here", false, time.Minute},
		{"in the middle of a call", "the lock is given back when the plugin has not come back after a while", true, pluginPoll},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil)
			here, there := newTold(newPeer(b, "here"), b.plugin), newTold(newPeer(b, "there"), b.plugin)
			there.others.rank = 1
			b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
				if tc.inCall {
					turnDown(here, there)
					return nil, plugin.ErrCrashed
				}
				return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Minute, WaitingFor: "something"}}, nil
			}
			jobID := b.setJob()
			here.hearItem()
			here.work()
			if !tc.inCall {
				turnDown(here, there)
			}
			b.answer = succeeds
			there.hearAll()
			b.clock.Step(rankPatience)
			there.work()
			if holder, _ := b.holder(); holder != "here" {
				t.Fatalf("%s: expected a job that goes on, but its lock is held by %q", tc.reason, holder)
			}

			b.clock.Step(tc.goesOn)
			here.hearAll()
			here.work()
			if holder, _ := b.holder(); holder != "" || len(b.calls) != 1 {
				t.Errorf("%s: expected a free lock, but its holder is %q after the calls %v", tc.reason, holder, b.calls)
			}
			there.hearAll()
			there.work()
			if item := b.read(); item.Status.JobIDFinished != jobID || item.Status.Deployer.Identity != "there" {
				t.Errorf("%s: expected the job to be carried out where the plugin runs, but found %s of %q",
					tc.reason, describe(item), item.Status.Deployer.Identity)
			}
		})
	}
}

// TestDownPluginAlone: where no other replica has the plugin, jobs wait for it.
func TestDownPluginAlone(t *testing.T) {
	b := newBench(t, answers(func() (*plugin.Outcome, error) { return nil, plugin.ErrNotRunning }))
	here := newTold(newPeer(b, "here"), b.plugin)
	here.plugin(func(p *fakePlugins) { p.down = map[string]bool{here.name: true} })
	jobID := b.setJob()
	here.hearItem()
	here.work()
	if holder, _ := b.holder(); holder != "here" {
		t.Errorf("expected a job that was picked up, but its lock is held by %q: %s", holder, describe(b.read()))
	}
	b.answer = succeeds
	here.plugin(func(p *fakePlugins) { p.down = nil })
	if here.work(); b.read().Status.JobIDFinished != jobID {
		t.Errorf("expected the job to go on as soon as the plugin runs, but found %s", describe(b.read()))
	}
}
