package contract_test

import (
	"slices"
	"testing"
	"time"

	"github.com/fluxcd/cli-utils/pkg/kstatus/status"
	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	isTrue, isFalse, isUnknown = v1alpha1.ConditionTrue, v1alpha1.ConditionFalse, v1alpha1.ConditionUnknown

	ready, reconciling, stalled = contract.ConditionReady, contract.ConditionReconciling, contract.ConditionStalled
)

// TestConditions follows one item through its life. Each step comes a minute after the one before.
func TestConditions(t *testing.T) {
	foreign := newCondition("Foreign", isTrue, "Whatever", "stays", 0)
	pickedUp := func(job string, after time.Duration) v1alpha1.Condition {
		return newCondition(contract.ConditionPickedUp, isTrue, "PickedUp", job, after)
	}
	updated := func(c v1alpha1.Condition, transition time.Duration) v1alpha1.Condition {
		c.LastTransitionTime = *at(transition)
		return c
	}
	failure := contract.Error{
		Operation: "Apply", Reason: "Refused", Message: "no", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorUnauthorized},
	}
	coded := func(c v1alpha1.Condition) v1alpha1.Condition { c.Codes = failure.Codes; return c }
	const minute, second = time.Minute, time.Second
	readyUnknown := newCondition(ready, isUnknown, "Progressing", "the job is under way", second)
	readyWaits := func(waitingFor string, after, transition time.Duration) v1alpha1.Condition {
		return updated(newCondition(ready, isUnknown, "Waiting", waitingFor, after), transition)
	}
	steps := []struct {
		reason string
		do     func(*v1alpha1.DeployItem, time.Time)
		want   []v1alpha1.Condition
		status status.Status
	}{
		{
			"a job in the queue", func(i *v1alpha1.DeployItem, now time.Time) {
				contract.Enqueue("a free worker")(i, false, deployer, now)
			},
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second), newCondition(reconciling, isTrue, "Queued", "a free worker", second),
				readyUnknown,
			}, status.InProgressStatus,
		},
		{
			"its turn", func(i *v1alpha1.DeployItem, now time.Time) { contract.Begin(i, false, deployer, now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second),
				updated(newCondition(reconciling, isTrue, "Progressing", "the deployer is at work", minute+second), second),
				readyUnknown,
			}, status.InProgressStatus,
		},
		{
			"a step in the middle of a call", func(i *v1alpha1.DeployItem, now time.Time) {
				contract.Step(i, "ReadChart", "reading chart", now)
			},
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second),
				updated(newCondition(reconciling, isTrue, "ReadChart", "reading chart", 2*minute), second), readyUnknown,
			}, status.InProgressStatus,
		},
		{
			"a step whose name is no reason", func(i *v1alpha1.DeployItem, now time.Time) {
				contract.Step(i, "read the chart!", "reading chart", now)
			},
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second),
				updated(newCondition(reconciling, isTrue, "Progressing", "reading chart", 3*minute), second), readyUnknown,
			}, status.InProgressStatus,
		},
		{
			"what is waited for", func(i *v1alpha1.DeployItem, now time.Time) { contract.Wait(i, "the moon", now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second),
				updated(newCondition(reconciling, isTrue, "Waiting", "the moon", 4*minute), second),
				readyWaits("the moon", 4*minute, second),
			}, status.InProgressStatus,
		},
		{
			"the same again changes nothing", func(i *v1alpha1.DeployItem, now time.Time) { contract.Wait(i, "the moon", now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second),
				updated(newCondition(reconciling, isTrue, "Waiting", "the moon", 4*minute), second),
				readyWaits("the moon", 4*minute, second),
			}, status.InProgressStatus,
		},
		{
			"an error, and another try", func(i *v1alpha1.DeployItem, now time.Time) { contract.Retry(i, failure, now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second), updated(
					newCondition(reconciling, isTrue, "Retrying", "another try, after: no", 6*minute), second,
				),
				coded(newCondition(ready, isFalse, "Refused", "no", 6*minute)),
			}, status.InProgressStatus,
		},
		{
			"the error is overcome", func(i *v1alpha1.DeployItem, now time.Time) { contract.Wait(i, "the sun", now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second), updated(
					newCondition(reconciling, isTrue, "Waiting", "the sun", 7*minute), second,
				),
				readyWaits("the sun", 7*minute, 7*minute),
			}, status.InProgressStatus,
		},
		{
			"given up", func(i *v1alpha1.DeployItem, now time.Time) { contract.Fail(i, false, failure, now) },
			[]v1alpha1.Condition{
				foreign, pickedUp("job-2", second), coded(newCondition(ready, isFalse, "Refused", "no", 8*minute)),
				coded(newCondition(stalled, isTrue, "Refused", "no", 8*minute)),
			}, status.FailedStatus,
		},
		{
			"a new job", func(i *v1alpha1.DeployItem, now time.Time) {
				i.Status.JobID = "job-3"
				contract.Begin(i, false, deployer, now)
			},
			[]v1alpha1.Condition{
				foreign, updated(pickedUp("job-3", 9*minute+second), second), newCondition(
					ready, isUnknown, "Progressing", "the job is under way", 9*minute+second,
				),
				newCondition(reconciling, isTrue, "Progressing", "the deployer is at work", 9*minute+second),
			}, status.InProgressStatus,
		},
		{
			"done", func(i *v1alpha1.DeployItem, now time.Time) { contract.Succeed(i, now) },
			[]v1alpha1.Condition{
				foreign, updated(pickedUp("job-3", 9*minute+second), second),
				newCondition(ready, isTrue, "Succeeded", "the job succeeded", 10*minute),
			}, status.CurrentStatus,
		},
	}
	item := newItem()
	item.Status.Conditions = []v1alpha1.Condition{foreign}
	for i, step := range steps {
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
		item := newItem(pickedUp(time.Second, v1alpha1.DeployItemPhaseProgressing))
		contract.Wait(item, "the moon", noon)
		if before == "Refused" {
			contract.Retry(item, contract.Error{Operation: "Apply", Reason: before, Message: "no"}, noon)
		}
		contract.Step(item, "Apply", "applying", noon)
		i := slices.IndexFunc(
			item.Status.Conditions, func(c v1alpha1.Condition) bool { return c.Type == contract.ConditionReady },
		)
		if got := item.Status.Conditions[i].Reason; got != want {
			t.Errorf("after %s: expected the reason %s, but found %s", before, want, got)
		}
	}
}

func TestFinishConditions(t *testing.T) {
	interruption := &v1alpha1.Error{
		Operation: "InterruptOperation", Reason: "InterruptOperation", Message: "operation was interrupted",
		LastTransitionTime: *at(0), LastUpdateTime: *at(0),
	}
	cases := map[string]struct {
		reason string
		end    modifier
		want   []v1alpha1.Condition
		status status.Status
	}{
		"interrupted": {
			reason: "the error is that of who has ended the job",
			end: func(i *v1alpha1.DeployItem) {
				finished(v1alpha1.DeployItemPhaseFailed)(i)
				i.Status.LastError = interruption
			},
			want: []v1alpha1.Condition{
				newCondition(ready, isFalse, "InterruptOperation", "operation was interrupted", time.Minute),
				newCondition(stalled, isTrue, "InterruptOperation", "operation was interrupted", time.Minute),
			},
			status: status.FailedStatus,
		},
		"failed without a reason": {
			reason: "a status needs no error",
			end:    finished(v1alpha1.DeployItemPhaseFailed),
			want: []v1alpha1.Condition{
				newCondition(ready, isFalse, "Failed", "the job failed", time.Minute),
				newCondition(stalled, isTrue, "Failed", "the job failed", time.Minute),
			},
			status: status.FailedStatus,
		},
		"succeeded": {
			reason: "somebody may set that, too",
			end:    finished(v1alpha1.DeployItemPhaseSucceeded),
			want:   []v1alpha1.Condition{newCondition(ready, isTrue, "Succeeded", "the job succeeded", time.Minute)},
			status: status.CurrentStatus,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := newItem(func(i *v1alpha1.DeployItem) { contract.Begin(i, false, deployer, noon) }, tc.end)
			want := item.DeepCopy()
			contract.FinishConditions(item, noon.Add(time.Minute))
			want.Status.Conditions = append(want.Status.Conditions[:1:1], tc.want...)
			failWith(t, tc.reason+"; nothing but the conditions changes", cmp.Diff(want, item))
			if got := kstatusOf(t, item); got != tc.status {
				t.Errorf("%s: kstatus says %s instead of %s", tc.reason, got, tc.status)
			}
			if again := contract.Decide(item, noon); again.Action != contract.Nothing {
				t.Errorf("%s: once is enough, but the decision is %s", tc.reason, again.Action)
			}
		})
	}
}

// kstatusOf is what the tools of the field make of an item.
func kstatusOf(t *testing.T, item *v1alpha1.DeployItem) status.Status {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(item)
	if err != nil {
		t.Fatal(err)
	}
	result, err := status.Compute(&unstructured.Unstructured{Object: fields})
	if err != nil {
		t.Fatal(err)
	}
	return result.Status
}

// TestServed: an item whose type nobody serves shows that in the condition that kubectl get shows, unless a job has
// said something there.
func TestServed(t *testing.T) {
	const message = "no plugin here serves it"
	own := newCondition(contract.ConditionServed, isFalse, contract.ReasonTypeNotServed, message, 0)
	shown := newCondition(ready, isFalse, contract.ReasonTypeNotServed, message, 0)
	ofAJob := newCondition(ready, isTrue, "Succeeded", "done", 0)
	cases := map[string]struct {
		reason           string
		before           []v1alpha1.Condition
		unserved, served []v1alpha1.Condition
	}{
		"never a job": {reason: "nothing else is known", unserved: []v1alpha1.Condition{own, shown}},
		"after a job": {
			reason: "what a job has said stays",
			before: []v1alpha1.Condition{ofAJob}, unserved: []v1alpha1.Condition{
				ofAJob, own,
			}, served: []v1alpha1.Condition{ofAJob},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			item := &v1alpha1.DeployItem{Status: v1alpha1.DeployItemStatus{Conditions: tc.before}}
			contract.SetUnserved(item, message, noon)
			failWith(t, tc.reason, cmp.Diff(tc.unserved, item.Status.Conditions))
			failWith(t, tc.reason, cmp.Diff(message, contract.Unserved(item)))
			contract.SetServed(item)
			failWith(t, tc.reason, cmp.Diff(tc.served, item.Status.Conditions))
			failWith(t, tc.reason, cmp.Diff("", contract.Unserved(item)))
		})
	}
}
