package controller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// TestLockOfAJob: a job takes two requests for its lock, and none of a replica without it. A hook that has no opinion
// about an item without a schedule costs none either.
// Rule (architecture.md#locks): A job holds its lock from its first call to its end, and needs two requests for it.
func TestLockOfAJob(t *testing.T) {
	b := newBench(t, nil)
	b.plugin.Capabilities.ScheduleInConfig = true
	hook(b.plugin, func() (*sdkhook.Result, error) {
		t.Error("the hook was asked")
		return nil, nil
	}, sdkhook.ShouldReconcile)
	here, there := newPeer(b, "here"), newPeer(b, "there")
	if here.reconcile(t.Context()); here.locks != 0 {
		t.Errorf("an item without a job costs %d requests for its lock", here.locks)
	}
	polls := 0
	b.answer = func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		there.hear()
		if there.reconcile(t.Context()); there.reads+there.writes+there.locks != 0 {
			t.Errorf("a replica reads %d times, writes %d times and asks for the lock %d times while another one is in a call",
				there.reads, there.writes, there.locks)
		}
		if polls++; polls < 3 {
			return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Minute, WaitingFor: "something"}}, nil
		}
		return succeeds(ctx, op, o)
	}
	jobID := b.setJob()
	for wait := here.reconcile(t.Context()); wait > 0; wait = here.reconcile(t.Context()) {
		if holder := b.holder(); holder != "here" {
			t.Errorf("expected the lock to be held over the polls of the job, but its holder is %q", holder)
		}
		if there.hear(); there.reads > 0 {
			t.Error("an item that waits is read by another replica")
		}
		b.clock.Step(wait)
	}
	if item := b.read(); item.Status.JobIDFinished != jobID || item.Status.Deployer.Identity != "here" || polls != 3 {
		t.Errorf("expected the job to succeed after 3 calls, but found %s after %d", describe(item), polls)
	}
	if object := b.lockObject(); object == nil || object.Spec.PodName != "" {
		t.Errorf("expected the lock to be there and to be free, but found %v", object)
	}
	if here.locks != 2 {
		t.Errorf("expected two requests for the lock, but there were %d", here.locks)
	}
	there.hear()
	if wait := there.reconcile(t.Context()); wait != 0 || there.reads+there.writes+there.locks != 0 {
		t.Errorf("an item that another replica has finished costs requests: %+v", there)
	}
	b.setJob()
	b.answer = succeeds
	if there.reconcile(t.Context()); b.read().Status.Deployer.Identity != "there" {
		t.Error("a new job was not carried out by the other replica")
	}
	if again := b.holder(); again != "" || there.locks != 2 {
		t.Errorf("expected the lock to be free after two requests, but found the holder %q after %d", again, there.locks)
	}
}

// TestTakeover: a replica that is thought dead, rightly or not, is followed by another one. What it does afterwards
// is in vain.
// Rule (architecture.md#locks): A lost lock cancels the call, and later writes of the old holder are refused.
func TestTakeover(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		hears        bool
	}{
		{"that hears of it", "the call is cancelled as soon as the watch shows that the lock was taken", true},
		{"that does not", "the first write after the take-over fails, and with it the job here", false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := newBench(t, nil, withTimeout("1h"))
			here, there := newPeer(b, "here"), newPeer(b, "there")
			b.answer = func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				b.answer = succeeds
				there.others.dead["here"] = true
				there.hear()
				there.reconcile(t.Context())
				here.writes = 0
				if tc.hears {
					here.hear()
					<-ctx.Done()
				}
				return &plugin.Outcome{
					Succeeded:      &plugin.Succeeded{Exports: []byte(`{"a":"old"}`)},
					ProviderStatus: []byte(`{"apiVersion":"v1","kind":"Old"}`),
				}, nil
			}
			jobID := b.setJob()
			if here.reconcile(t.Context()) == 0 {
				t.Error("the item is not reconciled again")
			}
			item := b.read()
			if item.Status.JobIDFinished != jobID || item.Status.Deployer.Identity != "there" ||
				rawStatus(item) != providerStatus {
				t.Errorf("%s: expected the outcome of the other replica, but found %s of %s, %s",
					tc.reason, describe(item), item.Status.Deployer.Identity, rawStatus(item))
			}
			here.hear()
			if here.reconcile(t.Context()); b.read().ResourceVersion != item.ResourceVersion {
				t.Errorf("%s: the item was changed afterwards", tc.reason)
			}
			if want := []string{"Reconcile " + jobID, "Reconcile " + jobID}; !slices.Equal(b.calls, want) {
				t.Errorf("expected calls %v, but found %v", want, b.calls)
			}
		})
	}
}

// TestTakeoverKeepsTheJob: the time of a job goes on, and its errors stay; only its deployer changes.
// Rule (architecture.md#locks): A job keeps its time and its errors when another replica takes it over.
func TestTakeoverKeepsTheJob(t *testing.T) {
	b := newBench(t, always(fails("NotYet")), withTimeout("1h"))
	here, there := newPeer(b, "here"), newPeer(b, "there")
	b.setJob()
	here.reconcile(t.Context())
	before := b.read()
	there.others.dead["here"] = true
	there.hear()
	b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
		after := b.read()
		if before.Status.LastReconcileTime.Equal(after.Status.LastReconcileTime) {
			t.Errorf("lastReconcileTime was %s and is %s: the old holder can take the job for its own",
				before.Status.LastReconcileTime, after.Status.LastReconcileTime)
		}
		after.Status.LastReconcileTime, after.Status.Deployer = before.Status.LastReconcileTime, before.Status.Deployer
		if diff := cmp.Diff(before.Status, after.Status); diff != "" {
			t.Errorf("the job has changed by the take-over (-before +after):\n%s", diff)
		}
		return waits("something")
	}
	if there.reconcile(t.Context()); len(b.calls) != 2 {
		t.Errorf("expected the job to go on at once, but found %v", b.calls)
	}
}

// TestShutdownReleasesTheLock: the lock of a job that waits is released at once, and that of a job in its call when the
// deployer has answered. A deployer that does not answer in time may still be at work: its lock is left to the end of
// this replica, which comes after that of the plugin.
// Rule (architecture.md#locks): A stopping host gives its locks back.
func TestShutdownReleasesTheLock(t *testing.T) {
	for name, tc := range map[string]struct {
		holder string
		ends   func(context.Context) (*plugin.Outcome, error) // nil: the job waits between two calls
	}{
		"job waits":                {"", nil},
		"deployer ends in order":   {"", func(context.Context) (*plugin.Outcome, error) { return fails("Stopped") }},
		"deployer does not answer": {"here", func(ctx context.Context) (*plugin.Outcome, error) { return nil, ctx.Err() }},
		"plugin ends in the call":  {"", func(context.Context) (*plugin.Outcome, error) { return nil, plugin.ErrCrashed }},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, always(waits("something")))
			here := newPeer(b, "here")
			running, end := context.WithCancel(t.Context())
			defer end()
			stop := func() {
				end()
				if err := here.locker.Start(running); err != nil {
					t.Error(err)
				}
			}
			if tc.ends != nil {
				b.answer = func(ctx context.Context, _ plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
					stop()
					if holder := b.holder(); holder != "here" {
						t.Errorf("the lock of a job in its call is held by %q", holder)
					}
					<-ctx.Done()
					return tc.ends(ctx)
				}
			}
			b.setJob()
			if here.reconcile(running); tc.ends == nil {
				stop()
			}
			if holder := b.holder(); holder != tc.holder {
				t.Errorf("expected the lock to be held by %q, but found %q", tc.holder, holder)
			}
		})
	}
}

// TestUnknownOperationIsReported: once, whether it is requested between the calls of another replica than the one that
// the item prefers, or during one.
// Rule (deploy-items.md#operations): An unknown operation is left alone and reported.
func TestUnknownOperationIsReported(t *testing.T) {
	for _, duringCall := range []bool{false, true} {
		b := newBench(t, nil)
		ask := func() { b.annotate(b.item, v1alpha1.OperationAnnotation, "dance") }
		reports, works := newPeer(b, "reports"), newPeer(b, "works")
		works.others.rank = 1
		b.answer = func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
			b.answer = succeeds
			if duringCall {
				ask()
			}
			return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "something"}}, nil
		}
		b.setJob()
		works.reconcile(t.Context())
		if !duringCall {
			ask()
		}
		for range 3 {
			reports.hear()
			reports.reconcile(t.Context())
			b.clock.Step(time.Second)
			works.reconcile(t.Context())
		}
		reported := strings.Count(fmt.Sprint(b.recorded()), "UnknownOperation")
		if item := b.read(); item.Status.JobID != item.Status.JobIDFinished || reported != 1 {
			t.Errorf("during a call %t: expected a job that ends, and one event of the unknown operation, but found %d, %s",
				duringCall, reported, describe(item))
		}
	}
}

// TestLockIsReadAfterTheItem: the watch of items may be ahead of that of locks. A replica that takes a lost lock for
// its own reads the item as the next holder has written it, and must not go on from there.
func TestLockIsReadAfterTheItem(t *testing.T) {
	b := newBench(t, always(waits("something")), withTimeout(v1alpha1.NoDuration))
	here, there := newPeer(b, "here"), newPeer(b, "there")
	b.setJob()
	here.reconcile(t.Context()) // and holds the lock on
	there.others.dead["here"] = true
	there.hear()
	there.reconcile(t.Context()) // takes the job over
	b.answer = succeeds
	calls, version := len(b.calls), b.read().ResourceVersion
	here.reconcile(t.Context()) // has heard that the item has changed, and not that the lock was taken
	if len(b.calls) != calls || b.read().ResourceVersion != version {
		t.Errorf("a replica without the lock calls the plugin or writes: calls %v, %s", b.calls, describe(b.read()))
	}
	if holder := b.holder(); holder != "there" {
		t.Errorf("the lock is held by %q", holder)
	}
}

// TestDownPluginTakesNoJob: a replica whose plugin does not run has all the time in the world, and must not take jobs
// because of that.
func TestDownPluginTakesNoJob(t *testing.T) {
	b := newBench(t, succeeds)
	runs, down := newQueuedPeer(newPeer(b, "runs"), b.plugin), newQueuedPeer(newPeer(b, "down"), b.plugin)
	down.setPlugin(false)
	down.others.rank = 1
	jobID := b.setJob()
	down.hear()
	wait := down.reconcile(t.Context())
	if got := down.reads + down.locks + down.writes; got != 0 || wait != job.PluginPoll {
		t.Errorf("expected a reconcile after %s without a request, but found %d requests, and %s", job.PluginPoll, got, wait)
	}
	runs.hear()
	runs.reconcile(t.Context())
	if item := b.read(); item.Status.JobIDFinished != jobID || item.Status.Deployer.Identity != "runs" {
		t.Errorf(
			"expected the job to be carried out where the plugin runs, but found %s of %q", describe(item),
			item.Status.Deployer.Identity,
		)
	}
}
