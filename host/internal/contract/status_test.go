package contract_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestBegin(t *testing.T) {
	stale := func(item *v1alpha1.DeployItem) {
		e := &v1alpha1.Error{Message: "of the job before"}
		item.Status.Phase = failed
		item.Status.ObservedGeneration = 1
		item.Status.LastError, item.Status.FirstError, item.Status.LastErrors = e, e, []*v1alpha1.Error{e}
		item.Status.TransitionTimes.FinishedTime = at(-time.Hour)
		item.Status.ExportReference = &v1alpha1.ObjectReference{Name: "kept"}
	}
	begunIn := func(phase v1alpha1.DeployItemPhase, reconcile time.Duration) v1alpha1.DeployItemStatus {
		conditions := []v1alpha1.Condition{
			newCondition(contract.ConditionPickedUp, isTrue, "PickedUp", "job-2", 0),
			newCondition(reconciling, isTrue, "Progressing", "the deployer is at work", 0),
			newCondition(ready, isUnknown, "Progressing", "the job is under way", 0),
		}
		return v1alpha1.DeployItemStatus{
			Phase: phase, ObservedGeneration: 3, Deployer: deployer,
			JobID: "job-2", JobIDFinished: "job-1", JobIDGenerationTime: at(0),
			LastReconcileTime: at(reconcile), Conditions: conditions,
			TransitionTimes: &v1alpha1.TransitionTimes{TriggerTime: at(0), InitTime: at(0)},
			ExportReference: &v1alpha1.ObjectReference{Name: "kept"},
		}
	}
	ahead := begunIn(initial, time.Minute)
	ahead.JobIDGenerationTime = at(time.Minute)
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   v1alpha1.DeployItemStatus
	}{
		// Rule (deploy-items.md#jobs): The pick-up sets phase `Init`, time, generation and deployer, and clears the
		// errors of the job before.
		"reconcile": {"what the last job has left is gone, but for what outlives jobs",
			newItem(stale), begunIn(initial, 0)},
		"deletion": {"a deletion has a phase of its own", newItem(stale, deleted), begunIn(initDelete, 0)},
		// Rule (deploy-items.md#jobs): `lastReconcileTime` is never before the time of the job, whatever the clocks
		// say.
		"clock behind Landscaper's": {
			reason: "Landscaper takes a job for picked up when lastReconcileTime is not before jobIDGenerationTime",
			item:   newItem(stale, jobSet(time.Minute)), want: ahead,
		},
	} {
		t.Run(name, func(t *testing.T) {
			begun(tc.item)
			failWith(t, tc.reason, cmp.Diff(tc.want, tc.item.Status))
			if got := contract.Decide(tc.item, noon); got.Action != contract.Continue {
				t.Errorf("a job that was picked up goes on, whatever the clocks say, but the decision is %s", got.Action)
			}
		})
	}
}

func TestNoJobGetsLessTimeThanItsTimeout(t *testing.T) {
	item := newItem(timeout("1s"))
	now := noon.Add(699 * time.Millisecond) // the last moment of a second
	contract.Begin(item, false, deployer, now)
	if got := contract.Decide(item, now.Add(999*time.Millisecond)); got.Action != contract.Continue {
		t.Errorf("expected a job with a timeout of a second to go on before that is over, but found %s", got.Action)
	}
	if got := contract.Decide(item, now.Add(2*time.Second)); got.Action != contract.TimedOut {
		t.Errorf("expected the job to have timed out at most a second later, but found %s", got.Action)
	}
}

func TestAnAbortFromAWholeSecondOnHasItsTime(t *testing.T) {
	now, item := noon.Truncate(time.Second), newItem(begun, asks(v1alpha1.OperationAbort))
	contract.AcceptOperation(item, "job-3", time.Minute, now)
	if deadline, err := contract.Deadline(item); err != nil || !deadline.Equal(now.Add(time.Minute)) {
		t.Errorf("expected an abort to have a minute, but found %s, %v", deadline.Sub(now), err)
	}
}

// TestNoTimeIsInTheFuture writes all times of a job in the middle of a second.
// Rule (deploy-items.md#conditions): No time in the status is in the future, and `lastTransitionTime` changes with the
// status of the condition only.
func TestNoTimeIsInTheFuture(t *testing.T) {
	now := noon.Add(699 * time.Millisecond)
	item := newItem()
	contract.SetJob(item, "job-3", now)
	contract.Begin(item, false, deployer, now.Add(2*time.Second))
	now = now.Add(2 * time.Second)
	for range 3 {
		before := *item.Status.LastReconcileTime
		contract.TakeOver(item, deployer, now)
		if after := *item.Status.LastReconcileTime; after.After(now) || after.Equal(&before) ||
			after.Before(item.Status.JobIDGenerationTime) {
			t.Errorf("expected a takeover at %s to change %s, but found %s", now, before, after)
		}
	}
	contract.Wait(item, "the moon", now)
	contract.Fail(item, false, contract.Error{Reason: "Refused"}, now)
	times := item.Status.TransitionTimes
	all := []v1alpha1.Time{
		*times.TriggerTime, *times.InitTime, *times.FinishedTime, item.Status.LastError.LastUpdateTime,
	}
	for _, c := range item.Status.Conditions {
		all = append(all, c.LastTransitionTime, c.LastUpdateTime)
	}
	for _, at := range all {
		if at.After(now) {
			t.Errorf("at %s, a time of the status is %s", now, at)
		}
	}
}

// TestTakeOverInTheSecondOfTheJob: a takeover changes the status, and Landscaper sees a pick-up after the job was set.
func TestTakeOverInTheSecondOfTheJob(t *testing.T) {
	item := newItem(begun)
	for range 3 {
		before := *item.Status.LastReconcileTime
		contract.TakeOver(item, deployer, noon)
		if after := item.Status.LastReconcileTime; after.Equal(&before) || !contract.PickedUp(item) {
			t.Errorf("expected a change of %s and a picked up job, but found %s", before, after)
		}
	}
}

// TestKeepTransitions: a job that begins and ends in one write does not change the status of Ready.
func TestKeepTransitions(t *testing.T) {
	before := newItem(begun, finished(succeeded), func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon) })
	after, later := before.DeepCopy(), noon.Add(time.Hour)
	contract.SetJob(after, "job-3", later)
	contract.FinishUnchanged(after, deployer, later)
	contract.KeepTransitions(&before.Status, &after.Status)
	for conditionType, want := range map[v1alpha1.ConditionType]time.Duration{
		ready: 0, contract.ConditionPickedUp: 0, contract.ConditionStarted: time.Hour,
	} {
		if c := conditionOf(after, conditionType); !c.LastTransitionTime.Equal(at(want)) {
			t.Errorf("expected %s since %s, but found %s", conditionType, at(want), c.LastTransitionTime)
		}
	}
}

// Rule (deploy-items.md#jobs): While a deployer works, the phase is `Progressing` or, for a deletion, `Deleting`.
func TestProgress(t *testing.T) {
	for before, want := range map[v1alpha1.DeployItemPhase]v1alpha1.DeployItemPhase{
		initial:     progressing,
		progressing: progressing,
		initDelete:  deleting,
		deleting:    deleting,
	} {
		item := newItem(pickedUp(0, before))
		expected := item.DeepCopy()
		expected.Status.Phase = want
		contract.Progress(item)
		failWith(t, "progress changes the phase and nothing else: polls cost no write", cmp.Diff(expected, item))
	}
}

func TestFinish(t *testing.T) {
	given := contract.Error{Operation: "Apply", Reason: "Refused", Message: "no"}
	recorded := recordedAs(given, time.Minute, time.Minute)
	twice := recordedAs(given, time.Minute, 2*time.Minute)
	twice.Message = "no (2 times)"
	end := func(
		phase v1alpha1.DeployItemPhase, finishedAt time.Duration, errs ...*v1alpha1.Error,
	) v1alpha1.DeployItemStatus {
		status := newItem(pickedUp(0, phase)).Status
		status.JobIDFinished = status.JobID
		status.TransitionTimes.FinishedTime = at(finishedAt)
		condition := newCondition(ready, isTrue, "Succeeded", "the job succeeded", finishedAt)
		if phase != succeeded {
			condition = newCondition(ready, isFalse, "Refused", "no", time.Minute)
			status.Conditions = append(status.Conditions, condition)
			condition = newCondition(stalled, isTrue, "Refused", "no", finishedAt)
		}
		status.Conditions = append(status.Conditions, condition)
		if len(errs) > 0 {
			status.FirstError, status.LastErrors = errs[0], errs[len(errs)-1:]
		}
		return status
	}
	withLast := func(status v1alpha1.DeployItemStatus) v1alpha1.DeployItemStatus {
		status.LastError = recorded
		return status
	}
	for name, tc := range map[string]struct {
		reason string
		change func(*v1alpha1.DeployItem)
		want   v1alpha1.DeployItemStatus
	}{
		// Rule (deploy-items.md#jobs): Success sets phase `Succeeded` and `jobIDFinished` in one write.
		"succeed": {"phase and jobIDFinished together",
			func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon.Add(time.Minute)) }, end(succeeded, time.Minute)},
		"succeed after an error": {"a job that has succeeded has no last error, but what happened can still be seen",
			func(i *v1alpha1.DeployItem) {
				contract.RecordError(i, given, noon.Add(time.Minute))
				contract.Succeed(i, noon.Add(time.Minute))
			},
			end(succeeded, time.Minute, recorded)},
		// Rule (deploy-items.md#jobs): Failure sets phase `Failed`, `jobIDFinished` and `lastError` in one write.
		"fail": {"phase, jobIDFinished and the error together",
			func(i *v1alpha1.DeployItem) { contract.Fail(i, false, given, noon.Add(time.Minute)) },
			withLast(end(failed, time.Minute, recorded))},
		"fail to delete": {"a deletion has a phase of its own",
			func(i *v1alpha1.DeployItem) { contract.Fail(i, true, given, noon.Add(time.Minute)) },
			withLast(end(v1alpha1.DeployItemPhaseDeleteFailed, time.Minute, recorded))},
		"fail with the error of before": {"an error that is given up because of is counted, not recorded twice",
			func(i *v1alpha1.DeployItem) {
				contract.RecordError(i, given, noon.Add(time.Minute))
				contract.Fail(i, false, given, noon.Add(2*time.Minute))
			},
			withLast(end(failed, 2*time.Minute, recorded, twice))},
		"clock set back": {"a job does not end before it begins",
			func(i *v1alpha1.DeployItem) { contract.Succeed(i, noon.Add(-time.Hour)) }, end(succeeded, 0)},
	} {
		t.Run(name, func(t *testing.T) {
			item := newItem(underWay)
			tc.change(item)
			failWith(t, tc.reason, cmp.Diff(tc.want, item.Status))
		})
	}
}

func TestFinishUnchanged(t *testing.T) {
	item := newItem(inPhase(succeeded), onChangeOnly(3), skipped)
	want := newItem(finished(succeeded)).Status
	want.ObservedGeneration, want.Deployer, want.LastReconcileTime = 3, deployer, at(0)
	want.TransitionTimes = &v1alpha1.TransitionTimes{
		TriggerTime: at(0), InitTime: at(0), FinishedTime: at(0),
	}
	want.Conditions = []v1alpha1.Condition{
		newCondition(contract.ConditionPickedUp, isTrue, "PickedUp", "job-2", 0),
		newCondition(ready, isTrue, "Succeeded", "the job succeeded", 0),
	}
	failWith(t, "a skipped job is one that was picked up and finished: Landscaper sees both", cmp.Diff(want, item.Status))
}

func TestDeployerAnnotations(t *testing.T) {
	for reason, tc := range map[string]struct {
		target *v1alpha1.ObjectReference
		want   string
	}{
		"the Target's name":                  {&v1alpha1.ObjectReference{Name: "a"}, "a"},
		"what Landscaper writes for none":    {nil, v1alpha1.NoTargetName},
		"a reference without a name is none": {&v1alpha1.ObjectReference{Namespace: "n"}, v1alpha1.NoTargetName},
	} {
		item := &v1alpha1.DeployItem{Spec: v1alpha1.DeployItemSpec{Type: "t", Target: tc.target}}
		want := map[string]string{v1alpha1.DeployerTypeAnnotation: "t", v1alpha1.DeployerTargetNameAnnotation: tc.want}
		failWith(t, reason, cmp.Diff(want, contract.DeployerAnnotations(item)))
	}
}
