package contract_test

import (
	"encoding/json"
	"fmt"
	"slices"
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
	item    *v1alpha1.DeployItem
	version int
	now     time.Time
	skew    time.Duration // of Landscaper's clock
	jobs    int
	// set are all jobs that anybody has set.
	set    []string
	picked string // the job that the host has picked up last
	// pickedFor tells whether that deletes.
	pickedFor bool
	// started are the jobs that the host has set itself.
	started []string
	// crashes are those of the plugin in the calls for that job.
	crashes int
	// call is the call of the deployer that is under way; nil for none.
	call *call
}

// call is what the host knows while its deployer is at work.
type call struct {
	item     *v1alpha1.DeployItem
	version  int
	decision contract.Decision
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
	w.version++
}

// setJob sets a job: as a Landscaper does, or as somebody may who knows less of the contract.
func (w *world) setJob(t *rapid.T) {
	after := w.item.DeepCopy()
	w.jobs++
	after.Status.JobID = fmt.Sprintf("job-%d", w.jobs)
	if len(w.set) > 0 && rapid.IntRange(0, 3).Draw(t, "once more") == 0 {
		after.Status.JobID = rapid.SampledFrom(w.set).Draw(t, "job")
	}
	w.set = append(w.set, after.Status.JobID)
	set := v1alpha1.NewTime(w.now.Add(w.skew))
	switch rapid.SampledFrom([]string{"with everything", "with its time", "alone"}).Draw(t, "set") {
	case "with everything":
		after.Status.TransitionTimes = &v1alpha1.TransitionTimes{TriggerTime: &set}
		after.Status.JobIDGenerationTime = &set
	case "with its time":
		after.Status.JobIDGenerationTime = &set
	}
	w.write(t, after)
}

// interrupt ends the job as Landscaper's interruption and its pick-up timeout do.
func (w *world) interrupt(t *rapid.T) {
	after := w.item.DeepCopy()
	after.Status.Phase, after.Status.JobIDFinished = v1alpha1.DeployItemPhaseFailed, after.Status.JobID
	w.write(t, after)
}

func (w *world) ask(t *rapid.T) {
	after := w.item.DeepCopy()
	after.Annotations = map[string]string{
		contract.AcceptedAnnotation:  w.item.Annotations[contract.AcceptedAnnotation],
		v1alpha1.OperationAnnotation: rapid.SampledFrom([]string{"reconcile", "test-reconcile", "force-reconcile", "abort", "dance"}).Draw(t, "operation"),
	}
	w.write(t, after)
}

// look is the host's: it decides, and writes unless it crashes or meets a conflict.
func (w *world) look(t *rapid.T) {
	if w.call != nil {
		return // the host calls for one item at a time
	}
	before, after := w.item, w.item.DeepCopy()
	decision := contract.Decide(before, w.now)
	w.checkDecision(t, before, decision)
	switch decision.Action {
	case contract.Nothing:
		return
	case contract.Continue, contract.Abort:
		w.call = &call{item: before, version: w.version, decision: decision}
		return
	case contract.Accept:
		w.accept(t, after)
	case contract.Repair:
		contract.EndReplaced(after, decision.Deletion, w.now)
	case contract.Settle:
		contract.SettleConditions(after, w.now)
		conditions := after.Status.Conditions
		after.Status.Conditions = before.Status.Conditions
		if !cmp.Equal(before, after) {
			t.Fatalf("the host changed more than conditions of a finished job: %s", cmp.Diff(before, after))
		}
		after.Status.Conditions = conditions
	case contract.Skip:
		contract.FinishUnchanged(after, deployer, w.now)
	case contract.PickUp, contract.Start, contract.Restart:
		w.begin(t, after, decision)
	case contract.TimedOut:
		contract.Fail(after, decision.Deletion, contract.TimeoutError(after, ""), w.now)
	case contract.GiveUp:
		contract.EndAborted(after, decision.Deletion, deployer, w.now)
	}
	if cmp.Equal(before, after) {
		if decision.Action == contract.PickUp && contract.IsQueued(before) {
			return // it waits for its turn in the same second
		}
		t.Fatalf("%s changes nothing: a write that does not happen is no fence", decision.Action)
	}
	if rapid.Bool().Draw(t, "conflict or crash") {
		return
	}
	if decision.Action == contract.Accept || decision.Action == contract.Settle || decision.Action == contract.Repair {
		w.write(t, after)
		return
	}
	if decision.Action != contract.TimedOut {
		w.picked, w.pickedFor, w.crashes = after.Status.JobID, decision.Deletion, 0
		w.checkPickUp(t, after, decision)
	}
	w.write(t, after)
	w.checkWrite(t, before, decision)
}

func (w *world) accept(t *rapid.T, item *v1alpha1.DeployItem) {
	w.jobs++
	status := item.DeepCopy().Status
	if _, effective := contract.AcceptOperation(item, fmt.Sprintf("own-%d", w.jobs), time.Minute, w.now); !effective && status.JobID != status.JobIDFinished {
		t.Fatal("nothing to do for an operation although a job is under way")
	}
	if _, asked := item.Annotations[v1alpha1.OperationAnnotation]; asked || !cmp.Equal(status, item.Status) {
		t.Fatal("an accepted operation takes its annotation away, and leaves the status alone")
	}
}

func (w *world) begin(t *rapid.T, item *v1alpha1.DeployItem, decision contract.Decision) {
	if decision.Action != contract.PickUp {
		jobID := decision.JobID
		if jobID == "" {
			w.jobs++
			jobID = fmt.Sprintf("own-%d", w.jobs)
		}
		if slices.Contains(w.started, jobID) {
			t.Fatalf("job %s is set a second time", jobID)
		}
		if item.Status.JobID != item.Status.JobIDFinished {
			t.Fatalf("the host sets job %s while %s is under way", jobID, item.Status.JobID)
		}
		contract.SetJob(item, jobID, w.now)
	}
	if rapid.Bool().Draw(t, "free worker") {
		contract.Begin(item, decision.Deletion, deployer, w.now)
		return
	}
	contract.Enqueue(item, decision.Deletion, deployer, w.now)
}

// report is what a deployer says in the middle of its call, and end is its outcome. Both are written if the call still makes sense.
func (w *world) report(t *rapid.T) {
	w.conclude(t, func(item *v1alpha1.DeployItem, _ contract.Decision) { contract.Step(item, "Step", "half-way", w.now) }, false)
}

func (w *world) end(t *rapid.T) {
	e := contract.Error{Operation: "Apply", Message: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "message")}
	outcome := rapid.SampledFrom([]string{"waits", "error", "success", "failure", "crash of the plugin", "crash of the host"}).Draw(t, "outcome")
	if outcome == "crash of the host" {
		w.call = nil
		return
	}
	w.conclude(t, func(item *v1alpha1.DeployItem, d contract.Decision) {
		switch {
		case outcome == "waits":
			contract.Wait(item, "something", w.now)
		case outcome == "error":
			contract.Retry(item, e, w.now)
		case outcome == "crash of the plugin":
			w.crashes++
			contract.NoteCrashes(item, contract.Crashes(item)+1, w.now)
			contract.Retry(item, contract.Error{Reason: contract.ReasonPluginCrashed, Message: "it ended"}, w.now)
		case outcome == "failure":
			contract.Fail(item, d.Deletion, e, w.now)
		case d.Action == contract.Abort:
			contract.Fail(item, d.Deletion, contract.AbortedError(""), w.now)
		default:
			contract.Succeed(item, w.now)
		}
	}, true)
}

// conclude writes for a call. Whoever has changed the item meanwhile lets the host read it and decide again.
func (w *world) conclude(t *rapid.T, change func(*v1alpha1.DeployItem, contract.Decision), last bool) {
	c := w.call
	if c == nil {
		return
	}
	if last {
		w.call = nil
	}
	if c.version != w.version {
		if !c.decision.Same(contract.Decide(w.item, w.now)) {
			w.call = nil
			return
		}
		c.item, c.version = w.item, w.version
	}
	after := c.item.DeepCopy()
	change(after, c.decision)
	w.write(t, after)
	w.checkWrite(t, c.item, c.decision)
	c.item, c.version = w.item, w.version
}

func (w *world) checkDecision(t *rapid.T, item *v1alpha1.DeployItem, decision contract.Decision) {
	status := item.Status
	if decision.Deletion != (item.DeletionTimestamp != nil) {
		t.Fatalf("decision %+v for an item with deletionTimestamp %v", decision, item.DeletionTimestamp)
	}
	switch decision.Action {
	case contract.Continue, contract.Abort, contract.TimedOut:
		if w.picked != status.JobID || w.pickedFor != decision.Deletion {
			t.Fatalf("%s of job %s (deletion %t), but %s (deletion %t) was picked up last",
				decision.Action, status.JobID, decision.Deletion, w.picked, w.pickedFor)
		}
		if crashes := contract.Crashes(item); crashes != w.crashes {
			t.Fatalf("%d crashes are counted for job %s, but there were %d", crashes, status.JobID, w.crashes)
		}
	case contract.Nothing:
		if status.JobID != status.JobIDFinished {
			t.Fatalf("nothing to do for job %s, but the last one finished is %s", status.JobID, status.JobIDFinished)
		}
		if !status.Phase.IsFinal() && w.picked != "" && w.picked != status.JobID {
			t.Fatalf("job %s was left half-way: phase %s", w.picked, status.Phase)
		}
	default:
	}
}

func (w *world) checkPickUp(t *rapid.T, item *v1alpha1.DeployItem, decision contract.Decision) {
	if decision.Action == contract.Start || decision.Action == contract.Restart {
		w.started = append(w.started, item.Status.JobID)
		w.set = append(w.set, item.Status.JobID)
	}
	status := item.Status
	if decision.Action != contract.GiveUp && status.TransitionTimes.InitTime.Time.Before(w.now) {
		t.Fatalf("initTime %s is before the pick-up at %s", status.TransitionTimes.InitTime, w.now)
	}
	if status.LastReconcileTime.Before(status.JobIDGenerationTime) {
		t.Fatalf("Landscaper does not see the pick-up: lastReconcileTime %s is before jobIDGenerationTime %s", status.LastReconcileTime, status.JobIDGenerationTime)
	}
	if decision.Action != contract.GiveUp && status.ObservedGeneration != item.Generation {
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
	if ended != after.Phase.IsFinal() || after.Phase.IsFinal() != (after.JobID == after.JobIDFinished) {
		t.Fatalf("phase %s, but jobIDFinished went from %s to %s for job %s", after.Phase, before.JobIDFinished, after.JobIDFinished, after.JobID)
	}
	if after.JobID != before.JobID && decision.Action != contract.Start && decision.Action != contract.Restart || w.item.Generation != previous.Generation {
		t.Fatal("the host changed what is not its own")
	}
	w.checkErrors(t, before, after, decision)
	begin := after.TransitionTimes.InitTime
	if end := after.TransitionTimes.FinishedTime; end != nil && end.Before(begin) {
		t.Fatalf("the job ended at %s, before its pick-up at %s", end, begin)
	}
	if unique := slices.CompactFunc(slices.Clone(after.Conditions), func(a, b v1alpha1.Condition) bool { return a.Type == b.Type }); len(unique) != len(after.Conditions) {
		t.Fatalf("a condition is there twice: %+v", after.Conditions)
	}
}

func (w *world) checkErrors(t *rapid.T, before, after v1alpha1.DeployItemStatus, decision contract.Decision) {
	begin := after.TransitionTimes.InitTime
	if len(after.LastErrors) > 5 {
		t.Fatalf("%d errors are remembered", len(after.LastErrors))
	}
	underWay := decision.Action == contract.Continue || decision.Action == contract.Abort || decision.Action == contract.TimedOut
	if underWay && before.FirstError != nil && !cmp.Equal(before.FirstError, after.FirstError) {
		t.Fatalf("the first error of the job changed: %s", cmp.Diff(before.FirstError, after.FirstError))
	}
	for i, e := range after.LastErrors {
		if e.LastTransitionTime.Before(begin) || e.LastUpdateTime.Before(begin) {
			t.Fatalf("error at %s, %s of a job that was picked up at %s", e.LastTransitionTime, e.LastUpdateTime, begin)
		}
		for _, other := range after.LastErrors[i+1:] {
			if e.Operation == other.Operation && e.Message == other.Message {
				t.Fatalf("the same error twice: %s", e.Message)
			}
		}
	}
}

// TestContractHoldsInAnyOrder: invariants 1 and 2 of docs/architecture.md, and what the functions promise. Package controller has the like
// for what depends on more than the item.
func TestContractHoldsInAnyOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{now: noon, skew: time.Duration(rapid.Int64Range(-int64(time.Minute), int64(time.Minute)).Draw(t, "skew"))}
		w.item = &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Generation: 1}}
		w.item.Spec.UpdateOnChangeOnly = rapid.Bool().Draw(t, "updateOnChangeOnly")
		w.item.Spec.Timeout = rapid.SampledFrom([]v1alpha1.Duration{"", "none", "1s", "1h", "malformed"}).Draw(t, "timeout")
		t.Repeat(map[string]func(*rapid.T){
			"set job":   w.setJob,
			"interrupt": w.interrupt,
			"ask":       w.ask,
			"change spec": func(t *rapid.T) {
				after := w.item.DeepCopy()
				after.Generation++
				w.write(t, after)
			},
			"delete": func(t *rapid.T) {
				after := w.item.DeepCopy()
				if after.DeletionTimestamp == nil {
					after.DeletionTimestamp = &metav1.Time{Time: w.now.Truncate(time.Second)}
					after.Generation++
				}
				w.write(t, after)
			},
			"clock": func(t *rapid.T) {
				w.now = w.now.Add(time.Duration(rapid.Int64Range(-int64(time.Hour), int64(time.Hour)).Draw(t, "by")))
			},
			"restart":       func(*rapid.T) { w.call = nil },
			"look":          w.look,
			"look again":    w.look,
			"look a third":  w.look,
			"report":        w.report,
			"end":           w.end,
			"end once more": w.end,
		})
	})
}
