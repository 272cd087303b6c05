package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	takeoverRounds = 8
	// shortLease is timeouts.lease where a test waits for its end.
	shortLease = 3 * time.Second
)

// takeover measures how long a job stands still whose replica goes away.
type takeover struct {
	*fleet
	counts *counts
	rounds int
}

func newTakeover(t *testing.T, settings ...string) *takeover {
	t.Helper()
	o := &takeover{fleet: newFleet(t, settings...), counts: &counts{t: t, namespace: newNamespace(t), dir: t.TempDir()}}
	o.start(3)
	return o
}

// round lets a job begin that is called again in a minute and holds its lock until then. end makes its replica go away and returns
// since when it counts as gone. next is when the job was called elsewhere, which ends it.
func (o *takeover) round(end func(*testenv.Replica) time.Time) (gone, next time.Time) {
	o.t.Helper()
	o.rounds++
	item := o.counts.newItem(fmt.Sprintf("item-%d", o.rounds), 0, 1, 60_000)
	create(o.t, item)
	jobID := setJob(o.t, item)
	waitFor(o.t, item, "in progress", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })

	gone = end(o.holder(item))

	begun := o.counts.waitBegun(item, 2)
	if finished := waitFinished(o.t, item, jobID); finished.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
		o.t.Errorf("expected the job to succeed, but found %s", describe(finished))
	}
	if begun[0].PID == begun[1].PID {
		o.t.Errorf("the job goes on in the process that it had: %+v", begun)
	}
	o.start(3 - len(o.live))
	return gone, begun[1].Time
}

// measure makes some rounds, logs how long they take, and returns the median. Each round has three replicas.
func (o *takeover) measure(what string, end func(*testenv.Replica) time.Time) time.Duration {
	o.t.Helper()
	var latencies []time.Duration
	for range takeoverRounds {
		gone, next := o.round(end)
		latencies = append(latencies, next.Sub(gone).Round(time.Millisecond))
	}
	slices.Sort(latencies)
	median := latencies[len(latencies)/2]
	o.t.Logf("%s: median %s of %v", what, median, latencies)
	o.counts.check()
	return median
}

// TestTakeoverAfterKill measures from the deletion of the pod of a replica that was killed to the call of its job elsewhere. The Lease
// would expire much later.
func TestTakeoverAfterKill(t *testing.T) {
	o := newTakeover(t, "timeouts: {lease: 1m}")
	median := o.measure("from the deletion of the pod to the next call", func(r *testenv.Replica) time.Time {
		o.kill(r)
		deleted := time.Now()
		o.deletePod(r)
		return deleted
	})
	if median > 3*time.Second {
		t.Errorf("expected jobs to go on within 3s of the pod's deletion, but found a median of %s", median)
	}
}

// TestTakeoverAfterTermination measures from SIGTERM to the call of the job elsewhere. The pod stays, as it does while its containers end.
func TestTakeoverAfterTermination(t *testing.T) {
	o := newTakeover(t, "timeouts: {lease: 1m}")
	median := o.measure("from SIGTERM to the next call", func(r *testenv.Replica) time.Time {
		asked := time.Now()
		o.terminate(r)
		return asked
	})
	if median > time.Second {
		t.Errorf("expected jobs to go on within 1s of SIGTERM, but found a median of %s", median)
	}
}

// TestTakeoverAfterLossOfNode: a replica has ended, but nobody has deleted its pod. It counts as alive until its Lease expires.
func TestTakeoverAfterLossOfNode(t *testing.T) {
	const margin = 3 * time.Second // for three processes that share two processors with others, and the race detector
	o := newTakeover(t, "timeouts: {lease: "+shortLease.String()+"}")
	for range 3 {
		var renewed time.Time
		killed, next := o.round(func(r *testenv.Replica) time.Time {
			o.kill(r)
			renewed = o.renewed(r)
			return time.Now()
		})
		t.Logf("from the end of the replica to the next call: %s; from the last renewal of its Lease: %s",
			next.Sub(killed).Round(time.Millisecond), next.Sub(renewed).Round(time.Millisecond))
		if next.Sub(renewed) < shortLease*2/3 {
			t.Errorf("the job was called elsewhere %s after its replica has renewed a Lease of %s", next.Sub(renewed), shortLease)
		}
		if next.Sub(killed) > shortLease+margin {
			t.Errorf("expected the job to go on when a Lease of %s has expired, but found %s", shortLease, next.Sub(killed))
		}
	}
	o.counts.check()
}

// renewed is when a replica has renewed its Lease last.
func (o *takeover) renewed(r *testenv.Replica) time.Time {
	o.t.Helper()
	lease := &coordinationv1.Lease{}
	if err := admin.Get(o.t.Context(), client.ObjectKey{Namespace: o.namespace, Name: "pergola-" + r.Pod.Name}, lease); err != nil {
		o.t.Fatal(err)
	}
	if lease.Spec.RenewTime == nil {
		o.t.Fatalf("the Lease of %s was never renewed: %+v", r.Pod.Name, lease.Spec)
	}
	return lease.Spec.RenewTime.Time
}
