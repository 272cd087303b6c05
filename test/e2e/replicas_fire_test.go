package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	fireReplicas = 3
	fireItems    = 300
	// fireKills is how many replicas are killed. The jobs of that time are seen through.
	fireKills = 8
	fireLook  = 250 * time.Millisecond
	// firePatience bounds how long the jobs of one round may take.
	firePatience = 3 * time.Minute
)

// TestReplicasUnderFire lets three replicas carry out jobs, and again and again kills one of them and starts another one in its place.
// Afterwards the deployer's records must show that no two calls for an item were ever under way at the same time, and the API server's
// audit log that each write to an item was made by the replica that held the item's lock.
//
// Who is killed and when is repeated with -random.seed; what meets what is not.
func TestReplicasUnderFire(t *testing.T) {
	f := newFire(t)
	t.Logf("to repeat it: -random.seed=%d", f.seed)
	f.start(fireReplicas)
	began := time.Now()
	for f.killed < fireKills {
		f.setJobs()
		f.untilFinished()
	}
	for _, r := range slices.Clone(f.live) {
		f.stop(r)
	}
	t.Logf("%d rounds of %d jobs in %s, %d replicas killed", f.rounds, fireItems, time.Since(began).Round(time.Second), f.killed)
	f.counts.check(f.items...)
	f.checkAudit()
}

// fire is a fleet under fire.
type fire struct {
	*fleet
	counts         *counts
	run            string // label of the items
	items          []*v1alpha1.DeployItem
	seed           uint64
	random         *rand.Rand
	mark           int64
	rounds, killed int
	nextKill       time.Time
}

func newFire(t *testing.T) *fire {
	t.Helper()
	f := &fire{
		fleet:  newFleet(t, "workers: 8"),
		counts: &counts{t: t, namespace: useAuditedNamespace(t), dir: t.TempDir()},
		run:    uuid.NewString()[:8],
		seed:   *randomSeed,
		mark:   auditMark(t),
	}
	for f.seed == 0 {
		f.seed = rand.Uint64()
	}
	f.random = rand.New(rand.NewPCG(f.seed, 0))
	for i := range fireItems {
		item := f.counts.newItem(fmt.Sprintf("%s-%03d", f.run, i), 200, 0, 0)
		item.Labels = map[string]string{"run": f.run}
		f.items = append(f.items, item)
	}
	forEach(t, f.items, func(ctx context.Context, item *v1alpha1.DeployItem) error { return admin.Create(ctx, item) })
	f.aim()
	return f
}

// aim chooses when the next replica is killed.
func (f *fire) aim() {
	f.nextKill = time.Now().Add(time.Second + time.Duration(f.random.Int64N(int64(2*time.Second))))
}

// setJobs sets a job for each item.
func (f *fire) setJobs() {
	f.t.Helper()
	f.rounds++
	forEach(f.t, f.items, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		return writeJob(ctx, item, fmt.Sprintf("%s-job-%d", item.Name, f.rounds))
	})
}

// untilFinished waits until the jobs of all items are finished, and kills replicas meanwhile.
func (f *fire) untilFinished() {
	f.t.Helper()
	ctx, cancel := context.WithTimeout(f.t.Context(), firePatience)
	defer cancel()
	for {
		if f.killed < fireKills && time.Now().After(f.nextKill) {
			f.killOne()
			f.aim()
		}
		left, err := f.unfinished(ctx)
		if err != nil {
			f.t.Fatalf("read deploy items: %v", err)
		}
		if left == "" {
			return
		}
		select { // reading all items takes its time, which the replicas could use
		case <-time.After(fireLook):
		case <-ctx.Done():
			f.t.Fatalf("waiting for the jobs of round %d to be finished: %s", f.rounds, left)
		}
	}
}

// killOne kills a replica and starts another one, which may be killed before it is ready.
func (f *fire) killOne() {
	f.t.Helper()
	r := f.live[f.random.IntN(len(f.live))]
	began := time.Now()
	f.kill(r)
	f.deletePod(r)
	killed := time.Since(began)
	next := f.launch()
	f.killed++
	f.t.Logf("round %d: %s killed in %s, %s started in %s", f.rounds, r.Pod.Name, killed.Round(time.Millisecond),
		next.Pod.Name, (time.Since(began) - killed).Round(time.Millisecond))
}

func (f *fire) unfinished(ctx context.Context) (string, error) {
	list := &v1alpha1.DeployItemList{}
	if err := admin.List(ctx, list, client.InNamespace(testenv.AuditedNamespace), client.MatchingLabels{"run": f.run}); err != nil {
		return "", err
	}
	left, example := 0, ""
	for i := range list.Items {
		item := &list.Items[i]
		if item.Status.JobIDFinished != item.Status.JobID {
			left++
			example = item.Name + ": " + describe(item)
		} else if item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded {
			f.t.Fatalf("a job has not succeeded: item %s, %s", item.Name, describe(item))
		}
	}
	if left == 0 && len(list.Items) == len(f.items) {
		return "", nil
	}
	return fmt.Sprintf("%d of %d, such as %s", left, len(list.Items), example), nil
}

// checkAudit checks what the replicas have written: under the lock, and as the contract has it.
func (f *fire) checkAudit() {
	f.t.Helper()
	requests := f.requestsOf(f.mark)
	locks := lockHistories(f.t, requests)
	checkLocks(f.t, locks)
	checked := checkFenced(f.t, requests, locks)
	takeovers := 0
	for _, history := range locks {
		for i, w := range history[1:] {
			if w.holder != "" && history[i].holder != "" && w.holder != history[i].holder {
				takeovers++
			}
		}
	}
	f.t.Logf("%d writes to items checked, %d takeovers of locks", checked, takeovers)
	// Each job is picked up and finished; a write whose replica was killed before its answer came is not counted.
	if jobs := f.rounds * fireItems; checked < 2*jobs-jobs/10 {
		f.t.Errorf("%d jobs, but only %d writes were checked", jobs, checked)
	}
	if takeovers == 0 {
		f.t.Error("no lock was ever taken over: the test means nothing")
	}
	f.checkContract()
}

// checkContract checks what has happened to each item as the random test does.
func (f *fire) checkContract() {
	f.t.Helper()
	var names []string
	var calls []call
	for _, item := range f.items {
		names = append(names, item.Name)
		calls = append(calls, f.counts.calls(item)...)
	}
	// A replica that is killed while it sends a request sends none.
	log := slices.DeleteFunc(readAudit(f.t, f.mark), func(w *write) bool { return len(w.RequestObject) == 0 && !w.succeeded() })
	finished := 0
	for _, h := range newHistories(log, names, calls) {
		if found := h.check(); len(found) > 0 {
			f.t.Errorf("deploy item %s:\n%s", h.name, h.describe(found))
		}
		if once := slices.Compact(slices.Clone(h.finished)); len(once) != len(h.finished) {
			f.t.Errorf("a job of item %s has ended more than once: %v", h.name, h.finished)
		}
		finished += len(h.finished)
	}
	// A last write is not known whose replica was killed before its answer came.
	if jobs := f.rounds * fireItems; finished > jobs || finished < jobs-jobs/20 {
		f.t.Errorf("%d jobs, and %d writes that end one", jobs, finished)
	}
}
