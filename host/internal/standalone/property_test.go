package standalone

import (
	"context"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemcache"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// world is a setter with its item, and those who change it.
type world struct {
	*bench
	t *rapid.T
	// heard is the item in the cache, which lags behind.
	heard         *v1alpha1.DeployItem
	jobs, changes int
	// set and changed are when the last job was set, and when the item was changed last.
	set, changed time.Time
}

// Get is the cache.
func (w *world) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	item, _ := obj.(*v1alpha1.DeployItem)
	w.heard.DeepCopyInto(item)
	return nil
}

// List is the cache.
func (w *world) List(context.Context, client.ObjectList, ...client.ListOption) error { return nil }

// hear updates the cache.
func (w *world) hear() { w.heard = itemcache.Slim(w.read()) }

// written checks a write of the setter to the status.
func (w *world) written(kind string, do func() error) error {
	before := w.read()
	if err := do(); err != nil || kind != "status" {
		return err
	}
	after, now := w.read(), w.time.Now()
	switch {
	case contract.Finished(before),
		contract.IsUnderWay(before) && before.Generation != before.Status.ObservedGeneration:
		if w.jobs++; w.jobs > w.changes {
			w.t.Fatalf("%d jobs for %d changes", w.jobs, w.changes)
		}
		w.set = now
	case after.Status.JobID != before.Status.JobID:
		w.t.Fatal("a job was set while another is under way")
	case !contract.PickedUp(before) && min(now.Sub(w.set), now.Sub(w.changed)) < allTimeouts.PickupTimeout,
		contract.PickedUp(before) && now.Sub(w.set) < contract.DefaultTimeout+allTimeouts.ProgressingTimeout:
		w.t.Fatalf("the job that was set at %s was ended at %s: %+v", w.set, now, after.Status)
	}
	return nil
}

// deployer does what a deployer would do.
func (w *world) deployer(finish bool) {
	switch contract.Decide(w.read(), w.time.Now()).Action {
	case contract.PickUp:
		w.pickUp()
	case contract.Continue, contract.TimedOut:
		if finish {
			w.finish()
		}
	default:
	}
}

// change changes the spec.
func (w *world) change() {
	w.changes++
	w.changed = w.time.Now()
	w.patch(fmt.Sprintf(`{"spec":{"config":{"apiVersion":"v1","kind":"Config","n":%d}}}`, w.changes))
}

// TestEachChangeGetsItsJobAndNoMore: whatever happens in whichever order, a job is set only while none of the same
// spec is under way, none is ended before its time, and once everything is idle, the last job was for the item as it
// is.
// Rule (operators-guide.md#install): In standalone mode, each change of an item gets one job, in place of a running job
// of an earlier spec.
func TestEachChangeGetsItsJobAndNoMore(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		w := &world{bench: newBench(t), t: rt, changes: 1}
		w.cache, w.write = w, w.written
		w.hear()
		times := []time.Duration{time.Millisecond, time.Minute, 4 * time.Minute, 6 * time.Minute}
		rt.Repeat(map[string]func(*rapid.T){
			"reconcile": func(*rapid.T) { w.reconcile() },
			"hear":      func(*rapid.T) { w.hear() },
			"change":    func(*rapid.T) { w.change() },
			"pick up":   func(*rapid.T) { w.deployer(false) },
			"finish":    func(*rapid.T) { w.deployer(true) },
			"wait":      func(t *rapid.T) { w.wait(rapid.SampledFrom(times).Draw(t, "time")) },
			"restart":   func(*rapid.T) { w.memory = newMemory() },
		})
		for range 4 {
			w.hear()
			w.reconcile()
			w.deployer(true)
			w.deployer(true)
		}
		item := w.read()
		if item.Status.ObservedGeneration != item.Generation || item.Status.JobID != item.Status.JobIDFinished {
			rt.Fatalf("idle, but generation %d, status %+v", item.Generation, item.Status)
		}
	})
}
