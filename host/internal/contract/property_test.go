package contract_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// world is one item between a Landscaper, its users and a host. The clocks of both sides differ, and go as they like.
type world struct {
	item      *v1alpha1.DeployItem
	now       time.Time
	skew      time.Duration // of Landscaper's clock
	jobs      int
	picked    string // the job that the host has picked up last
	pickedFor bool   // whether it deletes
}

// write makes a changed item the one that the API server has: what does not survive JSON is gone.
func (w *world) write(t *rapid.T, item *v1alpha1.DeployItem) {
	raw, err := json.Marshal(item)
	if err != nil {
		t.Fatal(err)
	}
	w.item = &v1alpha1.DeployItem{}
	if err := json.Unmarshal(raw, w.item); err != nil {
		t.Fatal(err)
	}
}

// setJob sets a job, as a Landscaper does with reset, or as somebody may who knows less of the contract.
func (w *world) setJob(t *rapid.T) {
	after := w.item.DeepCopy()
	status := &after.Status
	w.jobs++
	set := v1alpha1.NewTime(w.now.Add(w.skew))
	if rapid.Bool().Draw(t, "reset") {
		status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &set}
	} else if picked := status.LastReconcileTime; picked != nil && !picked.Before(&v1alpha1.Time{Time: set.Truncate(time.Second)}) {
		set = v1alpha1.NewTime(picked.Add(time.Second)) // the contract promises nothing within one second
	}
	status.JobID, status.JobIDGenerationTime = fmt.Sprintf("job-%d", w.jobs), &set
	w.write(t, after)
}

// interrupt ends the job as Landscaper's interruption and its pick-up timeout do.
func (w *world) interrupt(t *rapid.T) {
	after := w.item.DeepCopy()
	after.Status.Phase, after.Status.JobIDFinished = v1alpha1.DeployItemPhaseFailed, after.Status.JobID
	w.write(t, after)
}

// step is the host's: it decides, does something that may come of a call, and writes unless it meets a conflict.
func (w *world) step(t *rapid.T) {
	before, after := w.item, w.item.DeepCopy()
	decision := contract.Decide(before, w.now)
	if decision.Deletion != (before.DeletionTimestamp != nil) {
		t.Fatalf("decision %+v for an item with deletionTimestamp %v", decision, before.DeletionTimestamp)
	}
	if decision.Action == contract.Continue || decision.Action == contract.TimedOut {
		if w.picked != before.Status.JobID || w.pickedFor != decision.Deletion {
			t.Fatalf("%s of job %s (deletion %t), but %s (deletion %t) was picked up last",
				decision.Action, before.Status.JobID, decision.Deletion, w.picked, w.pickedFor)
		}
	}
	switch decision.Action {
	case contract.Nothing:
		if before.Status.JobID != before.Status.JobIDFinished {
			t.Fatalf("nothing to do for job %s, but the last one finished is %s", before.Status.JobID, before.Status.JobIDFinished)
		}
		return
	case contract.Skip:
		contract.FinishUnchanged(after, deployer, w.now)
	case contract.PickUp:
		contract.Begin(after, decision.Deletion, deployer, w.now)
	case contract.TimedOut:
		contract.Fail(after, decision.Deletion, contract.TimeoutError("something"), w.now)
	case contract.Continue:
		w.proceed(t, after, decision)
	}
	if cmp.Equal(before, after) && decision.Action != contract.Continue {
		t.Fatalf("%s changes nothing: a write that does not happen is no fence", decision.Action)
	}
	if rapid.Bool().Draw(t, "conflict") {
		return
	}
	if decision.Action == contract.PickUp || decision.Action == contract.Skip {
		w.picked, w.pickedFor = before.Status.JobID, decision.Deletion
		w.checkPickUp(t, after)
	}
	w.write(t, after)
	w.checkWrite(t, before, decision)
}

func (w *world) proceed(t *rapid.T, item *v1alpha1.DeployItem, decision contract.Decision) {
	e := contract.Error{Operation: "Apply", Message: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "message")}
	switch rapid.SampledFrom([]string{"progress", "error", "success", "failure"}).Draw(t, "outcome") {
	case "progress":
		contract.Progress(item)
	case "error":
		contract.Progress(item)
		contract.RecordError(item, e, w.now)
	case "success":
		contract.Succeed(item, w.now)
	case "failure":
		contract.Fail(item, decision.Deletion, e, w.now)
	}
}

func (w *world) checkPickUp(t *rapid.T, item *v1alpha1.DeployItem) {
	status := item.Status
	if status.TransitionTimes.InitTime.Time.Before(w.now) {
		t.Fatalf("initTime %s is before the pick-up at %s", status.TransitionTimes.InitTime, w.now)
	}
	if status.LastReconcileTime.Before(status.JobIDGenerationTime) {
		t.Fatalf("Landscaper does not see the pick-up: lastReconcileTime %s is before jobIDGenerationTime %s", status.LastReconcileTime, status.JobIDGenerationTime)
	}
	if status.ObservedGeneration != item.Generation {
		t.Fatalf("picked up for generation %d instead of %d", status.ObservedGeneration, item.Generation)
	}
}

// checkWrite checks what the host has just written.
func (w *world) checkWrite(t *rapid.T, previous *v1alpha1.DeployItem, decision contract.Decision) {
	before, after := previous.Status, w.item.Status
	ended := after.JobIDFinished != before.JobIDFinished
	if ended && (after.JobIDFinished != after.JobID || after.JobIDFinished != w.picked) {
		t.Fatalf("jobIDFinished became %s, but the job is %s and that picked up last %s", after.JobIDFinished, after.JobID, w.picked)
	}
	if ended != after.Phase.IsFinal() {
		t.Fatalf("phase %s, but jobIDFinished went from %s to %s", after.Phase, before.JobIDFinished, after.JobIDFinished)
	}
	if after.JobID != before.JobID || w.item.Generation != previous.Generation {
		t.Fatal("the host changed what is not its own")
	}
	if len(after.LastErrors) > 5 {
		t.Fatalf("%d errors are remembered", len(after.LastErrors))
	}
	if decision.Action != contract.PickUp && decision.Action != contract.Skip && before.FirstError != nil && !cmp.Equal(before.FirstError, after.FirstError) {
		t.Fatalf("the first error of the job changed: %s", cmp.Diff(before.FirstError, after.FirstError))
	}
	begin := after.TransitionTimes.InitTime
	if end := after.TransitionTimes.FinishedTime; end != nil && end.Before(begin) {
		t.Fatalf("the job ended at %s, before its pick-up at %s", end, begin)
	}
	for _, e := range after.LastErrors {
		if e.LastTransitionTime.Before(begin) || e.LastUpdateTime.Before(begin) {
			t.Fatalf("error at %s, %s of a job that was picked up at %s", e.LastTransitionTime, e.LastUpdateTime, begin)
		}
	}
}

func TestContractHoldsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: noon, skew: time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "skew"))}
		w.item = &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		w.item.Spec.UpdateOnChangeOnly = rapid.Bool().Draw(t, "updateOnChangeOnly")
		w.item.Spec.Timeout = rapid.SampledFrom([]v1alpha1.Duration{"", "none", "1s", "1h", "malformed"}).Draw(t, "timeout")
		t.Repeat(map[string]func(*rapid.T){
			"set job":   w.setJob,
			"interrupt": w.interrupt,
			"change spec": func(*rapid.T) {
				w.item.Generation++
			},
			"delete": func(*rapid.T) {
				if w.item.DeletionTimestamp == nil {
					w.item.DeletionTimestamp = &metav1.Time{Time: w.now.Truncate(time.Second)}
					w.item.Generation++
				}
			},
			"clock": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "by")))
			},
			"host":         w.step,
			"host again":   w.step,
			"host a third": w.step,
		})
	})
}
