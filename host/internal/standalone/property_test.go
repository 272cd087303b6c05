package standalone

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/responsibility"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// world is an item, and those who change it.
type world struct {
	t             *rapid.T
	item          *v1alpha1.DeployItem
	now           time.Time
	memory        *memory
	jobs, changes int
	// version is that of the item; heard is the metadata in the cache, which lags behind.
	version int
	heard   *metav1.PartialObjectMetadata
	// set and changed are when the last job was set, and when the item was changed last.
	set, changed time.Time
}

// written gives the item a new version, if something was written to it.
func (w *world) written(before *v1alpha1.DeployItem) {
	if !cmp.Equal(before, w.item) {
		w.version++
		w.item.ResourceVersion = fmt.Sprint(w.version)
	}
}

// hear brings the cache up to date.
func (w *world) hear() {
	w.heard = newMetadata()
	w.heard.ObjectMeta = *w.item.ObjectMeta.DeepCopy()
}

// look does what the setter would do. One that has heard of everything spares an item only that needs nothing.
func (w *world) look() {
	if j, ok := w.memory.recall(w.heard); ok && j.atRest {
		if need := decide(w.item, known{}, allTimeouts, w.now).need; w.heard.ResourceVersion == w.item.ResourceVersion && need != needNothing {
			w.t.Fatalf("an item was not read that needs %s", need)
		}
		return
	}
	before := w.item.DeepCopy()
	w.setter()
	w.written(before)
	w.memory.judge(w.item, atRest(w.item, allTimeouts, w.now))
}

// setter does what the setter would do that has read the item.
func (w *world) setter() {
	status := &w.item.Status
	waited := min(w.now.Sub(w.set), w.now.Sub(w.changed))
	switch decide(w.item, w.memory.see(w.item, w.now), allTimeouts, w.now).need {
	case needJob:
		if status.JobID != status.JobIDFinished {
			w.t.Fatal("a job was set while another is under way")
		}
		if w.jobs++; w.jobs > w.changes {
			w.t.Fatalf("%d jobs for %d changes", w.jobs, w.changes)
		}
		at := v1alpha1.NewTime(w.now.Truncate(time.Second))
		status.JobID, status.JobIDGenerationTime, status.TransitionTimes = fmt.Sprint(w.jobs), &at, nil
		w.memory.setFor(w.item)
		w.set = w.now
	case needPickupTimeout:
		if waited < allTimeouts.PickupTimeout {
			w.t.Fatalf("the job was ended after %s", waited)
		}
		status.ObservedGeneration = w.item.Generation
		contract.Fail(w.item, false, contract.PickupTimeoutError(allTimeouts.PickupTimeout, false), w.now)
	case needProgressingTimeout:
		if took := w.now.Sub(w.set); took < contract.DefaultTimeout+allTimeouts.ProgressingTimeout {
			w.t.Fatalf("the job was ended after %s", took)
		}
		contract.Fail(w.item, false, contract.DeadDeployerError(w.item), w.now)
	case needNothing, needPatience:
	}
}

// deployer does what a deployer would do.
func (w *world) deployer(finish bool) {
	defer w.written(w.item.DeepCopy())
	switch decision := contract.Decide(w.item, w.now); decision.Action {
	case contract.PickUp:
		contract.Begin(w.item, decision.Deletion, v1alpha1.DeployerInformation{Name: "one"}, w.now)
	case contract.Continue, contract.TimedOut:
		if finish {
			contract.Succeed(w.item, w.now)
		}
	default:
	}
}

// TestEachChangeGetsItsJobAndNoMore: whatever happens in whichever order, a job is set only while no other is under way, none is
// ended before its time, an item that needs something is read, and once everything has come to rest, the last job was for the item as it is.
func TestEachChangeGetsItsJobAndNoMore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, item: &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "item", Generation: 1}},
			now: now, memory: newMemory(), changes: 1, version: 1,
		}
		w.item.ResourceVersion, w.item.Annotations = "1", responsibility.Annotations(w.item)
		w.hear()
		t.Repeat(map[string]func(*rapid.T){
			"look": func(*rapid.T) { w.look() },
			"hear": func(*rapid.T) { w.hear() },
			"change": func(*rapid.T) {
				defer w.written(w.item.DeepCopy())
				w.item.Generation++
				w.changes++
				w.changed = w.now
			},
			"pick up": func(*rapid.T) { w.deployer(false) },
			"finish":  func(*rapid.T) { w.deployer(true) },
			"wait": func(t *rapid.T) {
				w.now = w.now.Add(rapid.SampledFrom([]time.Duration{time.Millisecond, time.Minute, 4 * time.Minute, 6 * time.Minute}).Draw(t, "time"))
			},
			"restart": func(*rapid.T) { w.memory = newMemory() },
		})
		for range 4 {
			w.hear()
			w.look()
			w.deployer(true)
			w.deployer(true)
		}
		status := w.item.Status
		if need := decide(w.item, known{}, allTimeouts, w.now).need; need != needNothing ||
			status.ObservedGeneration != w.item.Generation || status.JobID != status.JobIDFinished {
			t.Fatalf("at rest, but %s, generation %d, observed %d, job %s, finished %s",
				need, w.item.Generation, status.ObservedGeneration, status.JobID, status.JobIDFinished)
		}
	})
}
