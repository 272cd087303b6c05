package contract_test

import (
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	isTrue, isFalse, isUnknown = v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown

	ready, reconciling, stalled = contract.ConditionReady, contract.ConditionReconciling, contract.ConditionStalled
)

// TestConditions follows one item through its life. Each step comes a minute after the one before.
func TestConditions(t *testing.T) {
	const minute = time.Minute
	failure := contract.Error{
		Operation: "Apply", Reason: "Refused", Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized},
	}
	coded := func(c v1alpha1.Condition) v1alpha1.Condition { c.Codes = failure.Codes; return c }
	// since returns a condition whose status is older than its text.
	since := func(transition time.Duration, c v1alpha1.Condition) v1alpha1.Condition {
		c.LastTransitionTime = *at(transition)
		return c
	}
	reconcilingSince := func(reason, message string, after time.Duration) v1alpha1.Condition {
		return since(0, newCondition(reconciling, isTrue, reason, message, after))
	}
	foreign := newCondition("Foreign", isTrue, "Whatever", "stays", 0)
	picked := newCondition(contract.ConditionPickedUp, isTrue, "PickedUp", "job-2", 0)
	pickedNext := since(0, newCondition(contract.ConditionPickedUp, isTrue, "PickedUp", "job-3", 9*minute))
	readyUnknown := newCondition(ready, isUnknown, "Progressing", "the job is under way", 0)
	waitsForMoon := []v1alpha1.Condition{
		foreign, picked, reconcilingSince("Waiting", "the moon", 4*minute),
		since(0, newCondition(ready, isUnknown, "Waiting", "the moon", 4*minute)),
	}
	item := newItem(func(i *v1alpha1.DeployItem) { i.Status.Conditions = []v1alpha1.Condition{foreign} })
	for i, step := range []struct {
		reason string
		do     func(*v1alpha1.DeployItem, time.Time)
		want   []v1alpha1.Condition
		status status.Status
	}{
		{"a job in the queue", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Enqueue("a free worker")(i, false, deployer, now)
		}, []v1alpha1.Condition{
			foreign, picked, newCondition(reconciling, isTrue, "Queued", "a free worker", 0), readyUnknown,
		}, status.InProgressStatus},
		{"its turn", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Begin(i, false, deployer, now)
		}, []v1alpha1.Condition{
			foreign, picked, reconcilingSince("Progressing", "the deployer is at work", minute), readyUnknown,
		}, status.InProgressStatus},
		{"a step in the middle of a call", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Step(i, "ReadChart", "reading chart", now)
		}, []v1alpha1.Condition{
			foreign, picked, reconcilingSince("ReadChart", "reading chart", 2*minute), readyUnknown,
		}, status.InProgressStatus},
		{"a step whose name is no reason", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Step(i, "read the chart!", "reading chart", now)
		}, []v1alpha1.Condition{
			foreign, picked, reconcilingSince("Progressing", "reading chart", 3*minute), readyUnknown,
		}, status.InProgressStatus},
		{"a wait", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Wait(i, "the moon", now)
		}, waitsForMoon, status.InProgressStatus},
		{"the same again changes nothing", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Wait(i, "the moon", now)
		}, waitsForMoon, status.InProgressStatus},
		{"an error, and another try", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Retry(i, failure, now)
		}, []v1alpha1.Condition{
			foreign, picked, reconcilingSince("Retrying", "another try, after: no", 6*minute),
			coded(newCondition(ready, isFalse, "Refused", "no", 6*minute)),
		}, status.InProgressStatus},
		{"the error is overcome", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Wait(i, "the sun", now)
		}, []v1alpha1.Condition{
			foreign, picked, reconcilingSince("Waiting", "the sun", 7*minute),
			newCondition(ready, isUnknown, "Waiting", "the sun", 7*minute),
		}, status.InProgressStatus},
		{"given up", func(i *v1alpha1.DeployItem, now time.Time) {
			contract.Fail(i, false, failure, now)
		}, []v1alpha1.Condition{
			foreign, picked, coded(newCondition(ready, isFalse, "Refused", "no", 8*minute)),
			coded(newCondition(stalled, isTrue, "Refused", "no", 8*minute)),
		}, status.FailedStatus},
		{"a new job", func(i *v1alpha1.DeployItem, now time.Time) {
			i.Status.JobID = "job-3"
			contract.Begin(i, false, deployer, now)
		}, []v1alpha1.Condition{
			foreign, pickedNext, newCondition(ready, isUnknown, "Progressing", "the job is under way", 9*minute),
			newCondition(reconciling, isTrue, "Progressing", "the deployer is at work", 9*minute),
		}, status.InProgressStatus},
		{"done", contract.Succeed, []v1alpha1.Condition{
			foreign, pickedNext, newCondition(ready, isTrue, "Succeeded", "the job succeeded", 10*minute),
		}, status.CurrentStatus},
	} {
		step.do(item, noon.Add(time.Duration(i)*time.Minute))
		failWith(t, step.reason, cmp.Diff(step.want, item.Status.Conditions))
		if got := kstatusOf(t, item); got != step.status {
			t.Errorf("%s: kstatus says %s instead of %s", step.reason, got, step.status)
		}
	}
}

// A deployer that goes on does not wait any more. An error stays until it is overcome.
func TestStepEndsWaiting(t *testing.T) {
	t.Parallel()
	for before, want := range map[string]string{"Waiting": "Progressing", "Refused": "Refused"} {
		item := newItem(pickedUp(time.Second, progressing))
		contract.Wait(item, "the moon", noon)
		if before == "Refused" {
			contract.Retry(item, contract.Error{Operation: "Apply", Reason: before, Message: "no"}, noon)
		}
		contract.Step(item, "Apply", "applying", noon)
		if got := conditionOf(item, ready).Reason; got != want {
			t.Errorf("after %s: expected the reason %s, but found %s", before, want, got)
		}
	}
}

func TestFinishConditions(t *testing.T) {
	interruption := contract.Error{
		Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
	}
	ended := func(reason, message string) []v1alpha1.Condition {
		return []v1alpha1.Condition{
			newCondition(ready, isFalse, reason, message, time.Minute),
			newCondition(stalled, isTrue, reason, message, time.Minute),
		}
	}
	for name, tc := range map[string]struct {
		reason string
		item   *v1alpha1.DeployItem
		want   []v1alpha1.Condition
		status status.Status
	}{
		"interrupted": {"the error is that of the program that has ended the job",
			newItem(begun, finished(failed), func(i *v1alpha1.DeployItem) {
				i.Status.LastError = recordedAs(interruption, 0, 0)
			}), ended("InterruptOperation", "operation was interrupted"), status.FailedStatus},
		"failed without a reason": {"a status needs no error", newItem(begun, finished(failed)),
			ended("Failed", "the job failed"), status.FailedStatus},
		"succeeded": {"another program may set that, too", newItem(begun, finished(succeeded)), []v1alpha1.Condition{
			newCondition(ready, isTrue, "Succeeded", "the job succeeded", time.Minute),
		}, status.CurrentStatus},
	} {
		t.Run(name, func(t *testing.T) {
			want := tc.item.DeepCopy()
			contract.FinishConditions(tc.item, noon.Add(time.Minute))
			want.Status.Conditions = append(want.Status.Conditions[:1:1], tc.want...)
			failWith(t, tc.reason+"; nothing but the conditions changes", cmp.Diff(want, tc.item))
			if got := kstatusOf(t, tc.item); got != tc.status {
				t.Errorf("%s: kstatus says %s instead of %s", tc.reason, got, tc.status)
			}
			failWith(t, "once is enough", cmp.Diff(do(contract.Nothing), contract.Decide(tc.item, noon)))
		})
	}
}

// TestServed: an item whose type nobody serves shows that in the condition that kubectl get shows, unless a job has
// said something there.
func TestServed(t *testing.T) {
	const message = "no plugin here serves it"
	own := newCondition(contract.ConditionServed, isFalse, contract.ReasonTypeNotServed, message, 0)
	shown := newCondition(ready, isFalse, contract.ReasonTypeNotServed, message, 0)
	ofAJob := newCondition(ready, isTrue, "Succeeded", "done", 0)
	type conditions = []v1alpha1.Condition
	for reason, tc := range map[string]struct{ before, unserved, served conditions }{
		"nothing else is known":     {nil, conditions{own, shown}, nil},
		"what a job has said stays": {conditions{ofAJob}, conditions{ofAJob, own}, conditions{ofAJob}},
	} {
		item := &v1alpha1.DeployItem{Status: v1alpha1.DeployItemStatus{Conditions: tc.before}}
		contract.SetUnserved(item, message, noon)
		failWith(t, reason, cmp.Diff(tc.unserved, item.Status.Conditions))
		failWith(t, reason, cmp.Diff(message, contract.Unserved(item)))
		contract.SetServed(item)
		failWith(t, reason, cmp.Diff(tc.served, item.Status.Conditions))
		failWith(t, reason, cmp.Diff("", contract.Unserved(item)))
	}
}
