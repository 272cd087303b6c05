package controller

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"k8s.io/utils/clock"
	clocktesting "k8s.io/utils/clock/testing"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/lock"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// rivals are two replicas that share an item and may each think what they like of the other.
type rivals struct {
	*bench
	t     *rapid.T
	peers map[string]*peer
	// calls are the peers in a call, the innermost last.
	inCall []*peer
	// wrong: a replica has been taken for dead that was not.
	wrong   bool
	calm    bool
	history []string
}

func (r *rivals) fail(format string, args ...any) {
	r.t.Fatalf(format+"\nhistory:\n%s", append(args, strings.Join(r.history, "\n"))...)
}

// start starts a process in a pod; what was there before is gone.
func (r *rivals) start(podName string) {
	others := &fakeReplicas{podName: podName, dead: map[string]bool{}}
	if before := r.peers[podName]; before != nil {
		others.process = before.others.process + 1
	}
	p := newProcess(r.bench, others)
	p.written = func() { r.wrote(p) }
	p.clock = withoutTicks{r.clock}
	p.plugins = &fakePlugins{serving: []*fakeDeployer{{
		name: "one", itemType: testType, capabilities: plugin.Capabilities{Abort: true},
		call: func(ctx context.Context, op plugin.Operation, c plugin.Call, _ plugin.Observer) (*plugin.Outcome, error) {
			return r.call(ctx, p, string(op)+" "+c.DeployItem.Status.JobID)
		},
	}}}
	p.router.plugins = p.plugins
	r.peers[podName] = p
	p.hear()
}

// withoutTicks is a clock whose tickers stand still: what a call shows of itself is written by a goroutine of its
// own, and here one thing happens after the other.
type withoutTicks struct{ *clocktesting.FakeClock }

func (c withoutTicks) NewTicker(time.Duration) clock.Ticker {
	return clocktesting.NewFakeClock(c.Now()).NewTicker(time.Hour)
}

// wrote holds a write of the item against the lock: but for the pick-up of a job that waits, only its holder writes.
func (r *rivals) wrote(p *peer) {
	item := r.read()
	if item == nil {
		return
	}
	holder, process := r.lockedBy(item)
	r.history = append(r.history, fmt.Sprintf("%s wrote %s; the lock is held by %q", p.others.Process(), describe(item), process))
	if !contract.IsQueued(item) && (holder != p.others.podName || process != p.others.Process()) {
		r.fail("%s has written to the item, but its lock is held by %q", p.others.Process(), process)
	}
}

func (r *rivals) lockedBy(item *v1alpha1.DeployItem) (podName, process string) {
	object := &v1alpha1.SyncObject{}
	key := keyOf(item)
	key.Name = "one-" + string(item.UID)
	if err := r.admin.Get(r.bench.t.Context(), key, object); err != nil {
		return "", ""
	}
	return object.Spec.PodName, object.Annotations[lock.AnnotationProcess]
}

// call is the plugin of a replica. In the middle of it the other replica may do anything.
func (r *rivals) call(ctx context.Context, p *peer, what string) (*plugin.Outcome, error) {
	r.history = append(r.history, p.others.Process()+" is in its call: "+what)
	if _, process := r.lockedBy(r.read()); process != p.others.Process() {
		r.fail("%s is called for, but the lock is held by %q", p.others.Process(), process)
	}
	if len(r.inCall) > 0 && !r.wrong {
		r.fail("%s is in a call, and so is %s", r.inCall[0].others.Process(), p.others.Process())
	}
	r.inCall = append(r.inCall, p)
	defer func() { r.inCall = r.inCall[:len(r.inCall)-1] }()
	for !r.calm && rapid.IntRange(0, 2).Draw(r.t, "more in the middle") > 0 {
		r.step()
	}
	outcome := "success"
	if !r.calm {
		outcome = rapid.SampledFrom([]string{"success", "success", "waits", "error", "crash"}).Draw(r.t, "outcome")
	}
	r.history = append(r.history, p.others.Process()+" ends its call: "+outcome)
	switch outcome {
	case "waits":
		return &plugin.Outcome{InProgress: &plugin.InProgress{PollAfter: time.Minute, WaitingFor: "something"}}, nil
	case "error":
		return fails("NotYet")
	case "crash":
		return nil, plugin.ErrCrashed
	}
	return &plugin.Outcome{Succeeded: &plugin.Succeeded{}, ProviderStatus: []byte(fmt.Sprintf(`{"apiVersion":"v1","kind":"By","by":%q}`, p.others.Process()))}, nil
}

// step is something that happens.
func (r *rivals) step() {
	one := rapid.SampledFrom([]string{"here", "there"}).Draw(r.t, "replica")
	p := r.peers[one]
	what := rapid.SampledFrom([]string{
		"job", "label", "abort", "look", "look", "look", "hear", "hear", "thinks the other dead", "thinks the other alive",
		"lapses", "is renewed", "is restarted", "time",
	}).Draw(r.t, "step")
	r.history = append(r.history, one+": "+what)
	other := map[string]string{"here": "there", "there": "here"}[one]
	switch what {
	case "job":
		if item := r.read(); item != nil && item.Status.JobID == item.Status.JobIDFinished {
			r.setJob()
		}
	case "label":
		r.touch(r.item)
	case "abort":
		r.annotate(r.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	case "look":
		r.lookAs(p)
	case "hear":
		p.hear()
	case "thinks the other dead":
		r.wrong = true
		p.others.dead[other] = true
		p.locker.ReplicasChanged()
	case "thinks the other alive":
		delete(p.others.dead, other)
	case "lapses":
		p.others.invalid = true
		p.locker.ReplicasChanged()
	case "is renewed":
		p.others.invalid = false
		p.locker.ReplicasChanged()
	case "is restarted":
		if !r.isInCall(p) { // its call ends with it, and the bench has no way to end that
			r.start(one)
		}
	case "time":
		r.clock.Step(time.Duration(rapid.IntRange(1, 90).Draw(r.t, "seconds")) * time.Second)
	}
}

func (r *rivals) isInCall(p *peer) bool {
	for _, in := range r.inCall {
		if in == p {
			return true
		}
	}
	return false
}

// lookAs has a replica look at the item, unless it is at it.
func (r *rivals) lookAs(p *peer) time.Duration {
	if r.isInCall(p) {
		return 0
	}
	return p.look(r.bench.t.Context())
}

// TestRivals: whatever two replicas think of each other, nobody writes to an item whose lock another one holds,
// nobody is called for without the lock, and as long as nobody is wrong, one at a time. When they think right again,
// every job ends.
func TestRivals(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		r := &rivals{bench: newBench(t, nil), t: rt, peers: map[string]*peer{}}
		r.start("here")
		r.start("there")
		r.setJob()
		for range rapid.IntRange(1, 30).Draw(rt, "steps") {
			r.step()
		}
		r.calm = true
		for _, p := range r.peers {
			p.others.dead, p.others.invalid = map[string]bool{}, false
			p.locker.ReplicasChanged()
		}
		for range 20 {
			for _, p := range r.peers {
				p.hear()
				r.lookAs(p)
			}
			if item := r.read(); item.Status.JobID == item.Status.JobIDFinished {
				if podName, _ := r.lockedBy(item); podName == "" {
					return
				}
			}
			r.clock.Step(time.Minute)
		}
		item := r.read()
		if item.Status.JobID != item.Status.JobIDFinished {
			r.fail("the job does not end: %s", describe(item))
		}
		podName, _ := r.lockedBy(item)
		r.fail("there is nothing to do, but the lock is held by %q", podName)
	})
}
