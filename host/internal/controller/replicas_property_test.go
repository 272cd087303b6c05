package controller

import (
	"context"
	"maps"
	"slices"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/intake/intaketest"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/slots"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// replicaTest has two replicas that share an item, reconcile it only when it is in their queues, and may each think
// what they like of the other.
type replicaTest struct {
	*bench
	history
	t        *rapid.T
	replicas map[string]*queuedPeer
	// first is the pod that the item prefers.
	first string
	// processes is which one is in each pod.
	processes map[string]string
	// full are the replicas whose slot another item has.
	full map[*queuedPeer]bool
	// inCall are the replicas in a call, the innermost last.
	inCall []*queuedPeer
	// down: the plugin of a replica has not run for some time, so that it may have left the item to the other one.
	down bool
	// wrong: a replica has been taken for dead that was not.
	wrong bool
	calm  bool
	// late: the plugin has LatePickUp.
	late bool
}

var pods = []string{"here", "there"}

func otherPod(podName string) string { return pods[1-slices.Index(pods, podName)] }

func (c *replicaTest) note(format string, args ...any) {
	c.history.note(c.clock.Now().Format("05.000 ")+format, args...)
}

// start starts a process in a pod; what was there before is gone.
func (c *replicaTest) start(podName string) {
	others := &fakeReplicas{podName: podName, dead: map[string]bool{}}
	if before := c.replicas[podName]; before != nil {
		others.process = before.others.process + 1
		others.rank = before.others.rank
	}
	c.processes = maps.Clone(c.processes)
	c.processes[podName] = others.Process()
	others.processes = c.processes
	for _, r := range c.replicas {
		r.others.change(func(o *fakeReplicas) { o.processes = c.processes })
	}
	var r *queuedPeer
	r = newQueuedPeer(newProcess(c.bench, others), &intaketest.Deployer{
		PluginName: "one", Type: testType, Capabilities: plugin.Capabilities{Abort: true, LatePickUp: c.late},
		OnCall: func(ctx context.Context, op plugin.Operation, _ plugin.Call, o plugin.Observer) (*plugin.Outcome, error) {
			return c.call(ctx, r, op, o)
		},
	})
	r.written = func() { c.wrote(r) }
	r.set(func(p *parts) { p.clock = withoutTicks{c.clock} })
	c.replicas[podName] = r
}

// withoutTicks is a clock whose tickers stand still: what a call shows of itself is written by a goroutine of its
// own, and here one thing happens after the other.
type withoutTicks struct{ *clocktesting.FakeClock }

func (c withoutTicks) NewTicker(time.Duration) clock.Ticker {
	return clocktesting.NewFakeClock(c.Now()).NewTicker(time.Hour)
}

// wrote holds a write of the item against the lock: but for the pick-up of a job that waits, only its holder writes.
func (c *replicaTest) wrote(r *queuedPeer) {
	item := c.read()
	holder := c.lockedBy()
	c.note("%s wrote %s; the lock is held by %q", r.others.Process(), describe(item), holder)
	if !contract.IsQueued(item) && c.keepsOff(holder, r) {
		c.fail("%s has written to the item, but its lock is held by %q", r.others.Process(), holder)
	}
}

// keepsOff reports whether a replica has nothing to do with the item while this process holds the lock. One that does
// not know that it has got the lock, since the answer was lost, has not fenced off its former holder.
func (c *replicaTest) keepsOff(holder string, r *queuedPeer) bool {
	for _, other := range c.replicas {
		if other != r && other.others.Process() == holder {
			return other.locker.Holds(lockKey(r.name, c.read()))
		}
	}
	return holder != r.others.Process()
}

// lockedBy is the process that holds the lock of the item; empty for none.
func (c *replicaTest) lockedBy() (process string) {
	object := c.lockObject()
	if object == nil || object.Spec.PodName == "" {
		return ""
	}
	return object.Annotations[lock.AnnotationProcess]
}

// begin starts a process that hears of what is there.
func (c *replicaTest) begin(podName string) {
	c.start(podName)
	c.replicas[podName].hearAll()
}

// call is the plugin of a replica. In the middle of it anything may happen to the others.
func (c *replicaTest) call(
	ctx context.Context, r *queuedPeer, op plugin.Operation, o plugin.Observer,
) (*plugin.Outcome, error) {
	if !r.runs() {
		return nil, plugin.ErrNotRunning
	}
	c.note("%s is in its call: %s", r.others.Process(), op)
	if holder := c.lockedBy(); c.keepsOff(holder, r) {
		c.fail("%s is called for, but the lock is held by %q", r.others.Process(), holder)
	}
	if len(c.inCall) > 0 && !c.wrong {
		c.fail("%s is in a call, and so is %s", c.inCall[0].others.Process(), r.others.Process())
	}
	c.inCall = append(c.inCall, r)
	defer func() { c.inCall = c.inCall[:len(c.inCall)-1] }()
	for !c.calm && rapid.IntRange(0, 2).Draw(c.t, "more in the middle") > 0 {
		c.step()
	}
	if rapid.Bool().Draw(c.t, "saves") {
		if err := o.SaveProviderStatus(ctx, []byte(providerStatus)); err != nil {
			return fails(err.Error())
		}
		if holder := c.lockedBy(); c.keepsOff(holder, r) {
			c.fail("%s may change something, but the lock is held by %q", r.others.Process(), holder)
		}
	}
	outcome := "success"
	if !c.calm {
		outcome = rapid.SampledFrom([]string{"success", "waits", "error", "crash"}).Draw(c.t, "outcome")
	}
	if !r.runs() {
		outcome = "crash"
	}
	c.note("%s ends its call: %s, %v", r.others.Process(), outcome, ctx.Err())
	switch outcome {
	case "waits":
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Second, WaitingFor: "something"}}, nil
	case "error":
		return fails("NotYet")
	case "crash":
		return nil, plugin.ErrCrashed
	default:
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
}

func (c *replicaTest) isInCall(r *queuedPeer) bool { return slices.Contains(c.inCall, r) }

// work has a replica reconcile if it is time, unless it is at it.
func (c *replicaTest) work(r *queuedPeer) bool {
	if c.isInCall(r) || !r.queue.isDue() {
		return false
	}
	worked := r.work()
	c.note("%s has reconciled; again at %s", r.others.Process(), r.queue.due.Format("05.000"))
	return worked
}

// hearOfOthers lets a replica hear how many come before it for the item: those whose plugin runs, in the order of
// preference.
func (c *replicaTest) hearOfOthers(podName string) {
	r, other := c.replicas[podName], c.replicas[otherPod(podName)]
	rank := 0
	if other.runs() && (!r.runs() || c.first != podName) {
		rank = 1
	}
	if rank == r.others.rank {
		return
	}
	r.others.change(func(o *fakeReplicas) { o.rank = rank })
	r.locker.ReplicasChanged()
}

// renew ends a lapse of a replica. One that has not lapsed hears nothing, for that would wake it up.
func (c *replicaTest) renew(r *queuedPeer) {
	if r.others.Valid() {
		return
	}
	r.others.change(func(o *fakeReplicas) { o.invalid = false })
	r.locker.ReplicasChanged()
}

func (c *replicaTest) freeSlot(r *queuedPeer) {
	if c.full[r] {
		delete(c.full, r)
		r.slots.Release(anotherItem)
		r.router.SlotsReserved(r.name, r.slots.EndReconcile(anotherItem, false))
	}
}

// fillSlot gives the slot of a replica to another item; one that gets none goes again.
func (c *replicaTest) fillSlot(r *queuedPeer) {
	if c.full[r] {
		return
	}
	if given, _ := r.slots.Given(""); given > 0 {
		return
	}
	if !r.slots.Acquire(anotherItem, slots.Share{}, slots.Preferred) {
		c.bench.t.Error("no slot is given, but there is none")
	}
	c.full[r] = true
}

// sweep deletes the lock of the item if it is free, as the cleaner does with one whose item it takes for gone.
func (c *replicaTest) sweep() {
	object := c.lockObject()
	if object == nil || object.Spec.PodName != "" {
		return
	}
	c.remove(object)
	for _, pod := range pods {
		c.replicas[pod].hear()
		c.replicas[pod].locker.Deleted(object)
	}
}

// TestReplicas: whatever two replicas think of each other, none writes to an item whose lock another one holds, none is
// in a call without the lock, and as long as none is wrong, one at a time. Whatever has happened to them,
// they bring every job to its end soon once all is calm, although they reconcile only what is in their queues, and none
// holds a lock then. One that a process has left behind when it ended is taken over with the next job.
// Rule (architecture.md#what-always-holds): 3. For a plugin and an item at most one replica is in a call whose results
// can be written.
func TestReplicas(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		c := &replicaTest{
			bench: newBench(t, nil), history: history{t: rt}, t: rt, first: "here", late: rapid.Bool().Draw(rt, "LatePickUp"),
			replicas: map[string]*queuedPeer{}, processes: map[string]string{}, full: map[*queuedPeer]bool{},
		}
		for _, pod := range pods {
			c.start(pod)
		}
		for _, pod := range pods {
			c.hearOfOthers(pod)
			c.replicas[pod].hearItem()
		}
		c.setJob()
		for range rapid.IntRange(1, 20).Draw(rt, "steps") {
			c.step()
		}
		c.calmDown()
		c.finishes()
	})
}

// calmDown ends all trouble. One of the replicas may be left with a plugin that does not run.
func (c *replicaTest) calmDown() {
	c.calm = true
	c.note("all is calm")
	one := rapid.SampledFrom(pods).Draw(c.t, "replica whose plugin runs")
	bothRun := rapid.Bool().Draw(c.t, "that of the other one runs, too")
	c.note("the plugin of %s runs, and that of the other one: %t", one, bothRun)
	for _, pod := range pods {
		r := c.replicas[pod]
		r.trouble = noTrouble
		r.hear()
		c.renew(r)
		r.others.change(func(o *fakeReplicas) { clear(o.dead) })
		c.freeSlot(r)
		c.down = c.down || pod != one && !bothRun
		r.setPlugin(pod == one || bothRun)
	}
	for _, pod := range pods {
		c.hearOfOthers(pod)
	}
}

// finishes lets the replicas hear of everything and do what they want to.
func (c *replicaTest) finishes() {
	began, reconciles := c.clock.Now(), 0
	// Soon is well before a reconcile of an item that nothing has put into the queue: see lockPoll and slotPoll.
	soon := 25 * time.Second
	if c.down { // a replica that leaves an item because of that reconciles it again after a while
		soon += job.PluginPoll
	}
	here, there := c.replicas["here"], c.replicas["there"]
	for news := true; ; {
		if news {
			here.hearAll()
			there.hearAll()
		}
		if news = c.work(here) || c.work(there); news {
			if reconciles++; reconciles > 300 {
				c.fail("it does not come to an end")
			}
			continue
		}
		if c.atEnd() {
			return
		}
		next := nextDue(here, there)
		if next.IsZero() || next.Sub(began) > soon {
			c.fail("after %s: %s, annotations %v, lock of %q; the next reconcile is at %s",
				c.clock.Since(began), describe(c.read()), c.read().Annotations, c.holder(), next.Format("05.000"))
		}
		c.clock.SetTime(next)
	}
}

// atEnd reports whether there is nothing to do any more and no living process holds the lock.
func (c *replicaTest) atEnd() bool {
	item := c.read()
	if item.Status.JobID != item.Status.JobIDFinished || item.Annotations[v1alpha1.OperationAnnotation] != "" {
		return false
	}
	holder := c.lockedBy()
	return holder == "" || !slices.Contains(slices.Collect(maps.Values(c.processes)), holder)
}

// step is something that happens to a replica or to the item.
func (c *replicaTest) step() {
	pod := rapid.SampledFrom(pods).Draw(c.t, "replica")
	r, other := c.replicas[pod], otherPod(pod)
	believe := func(change func(*fakeReplicas)) {
		r.others.change(change)
		r.locker.ReplicasChanged()
	}
	steps := map[string]func(){
		"work":               func() { c.work(r) },
		"hear":               r.hear,
		"hear of the item":   r.hearItem,
		"hear of the others": func() { c.hearOfOthers(pod) },
		"thinks the other dead": func() {
			c.wrong = true
			believe(func(o *fakeReplicas) { o.dead[other] = true })
		},
		"thinks the other alive": func() { r.others.change(func(o *fakeReplicas) { delete(o.dead, other) }) },
		"lapses":                 func() { believe(func(o *fakeReplicas) { o.invalid = true }) },
		"is renewed":             func() { c.renew(r) },
		"is restarted": func() {
			if !c.isInCall(r) { // its call ends with it, and the bench has no way to end that
				c.begin(pod)
				c.replicas[other].locker.ReplicasChanged()
			}
		},
		"refused":    func() { r.trouble = refused },
		"unanswered": func() { r.trouble = unanswered },
		"no trouble": func() { r.trouble = noTrouble },
		"slot taken": func() { c.fillSlot(r) },
		"slot free":  func() { c.freeSlot(r) },
		"does not run": func() {
			c.down = true
			r.setPlugin(false)
		},
		"runs":  func() { r.setPlugin(true) },
		"woken": func() { r.router.WakeUp(r.name, c.item.Namespace, c.item.Name) },
		"job": func() {
			if item := c.read(); item.Status.JobID == item.Status.JobIDFinished {
				c.setJob()
			}
		},
		"label": func() { c.touch(c.item) },
		"operation": func() {
			c.annotate(c.item, v1alpha1.OperationAnnotation,
				rapid.SampledFrom([]string{v1alpha1.OperationReconcile, v1alpha1.OperationAbort}).Draw(c.t, "operation"))
		},
		"time": func() {
			c.clock.Step(time.Duration(rapid.IntRange(1, 9000).Draw(c.t, "ms")) * time.Millisecond)
		},
		"preference":   func() { c.first = otherPod(c.first) },
		"lock deleted": c.sweep,
	}
	// What comes first is drawn more often.
	often := []string{"work", "work", "work", "hear", "hear", "hear of the item", "hear of the item", "job"}
	what := rapid.SampledFrom(append(often, slices.Sorted(maps.Keys(steps))...)).Draw(c.t, "step")
	c.note("%s: %s", pod, what)
	steps[what]()
}
