package contract_test

import (
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// noon is a time in the middle of a second, as times are.
var noon = time.Date(2024, time.March, 14, 12, 0, 0, 300_000_000, time.UTC)

const (
	initial     = v1alpha1.DeployItemPhaseInit
	progressing = v1alpha1.DeployItemPhaseProgressing
	completing  = v1alpha1.DeployItemPhaseCompleting
	succeeded   = v1alpha1.DeployItemPhaseSucceeded
	failed      = v1alpha1.DeployItemPhaseFailed
	initDelete  = v1alpha1.DeployItemPhaseInitDelete
	deleting    = v1alpha1.DeployItemPhaseDeleting
)

var deployer = v1alpha1.DeployerInformation{Identity: "here", Name: "mock", Version: "v1"}

// at is a time so long after noon, as the API server gives it back.
func at(after time.Duration) *v1alpha1.Time {
	t := v1alpha1.NewTime(noon.Add(after).Truncate(time.Second))
	return &t
}

type modifier func(*v1alpha1.DeployItem)

// newItem returns an item of generation 3 for which a job was set at noon and nothing else was done.
func newItem(modifiers ...modifier) *v1alpha1.DeployItem {
	item := &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{Generation: 3},
		Status: v1alpha1.DeployItemStatus{
			JobID:               "job-2",
			JobIDFinished:       "job-1",
			JobIDGenerationTime: at(0),
			TransitionTimes:     &v1alpha1.TransitionTimes{TriggerTime: at(0)},
		},
	}
	for _, modify := range modifiers {
		modify(item)
	}
	return item
}

func deleted(item *v1alpha1.DeployItem) { item.DeletionTimestamp = &metav1.Time{Time: noon} }

func finished(phase v1alpha1.DeployItemPhase) modifier {
	return func(item *v1alpha1.DeployItem) {
		item.Status.Phase, item.Status.JobIDFinished = phase, item.Status.JobID
	}
}

func inPhase(phase v1alpha1.DeployItemPhase) modifier {
	return func(item *v1alpha1.DeployItem) { item.Status.Phase = phase }
}

func withJob(id string) modifier { return func(item *v1alpha1.DeployItem) { item.Status.JobID = id } }

// begun is an item whose job was picked up at noon, with all that this writes.
func begun(item *v1alpha1.DeployItem) {
	contract.Begin(item, item.DeletionTimestamp != nil, deployer, noon)
}

// skipped is an item whose job has succeeded at noon, because nothing has changed.
func skipped(item *v1alpha1.DeployItem) { contract.FinishUnchanged(item, deployer, noon) }

// underWay is an item with a job that was picked up at noon.
var underWay = pickedUp(0, progressing)

// pickedUp is an item whose job was picked up so long after noon and is in a phase.
func pickedUp(after time.Duration, phase v1alpha1.DeployItemPhase) modifier {
	return func(item *v1alpha1.DeployItem) {
		item.Status.Phase = phase
		item.Status.LastReconcileTime = at(after)
		item.Status.TransitionTimes.InitTime = at(after)
		item.Status.Conditions = []v1alpha1.Condition{
			newCondition(contract.ConditionPickedUp, v1alpha1.ConditionTrue, "PickedUp", item.Status.JobID, after),
		}
	}
}

// queued is an item whose job was picked up so long after noon and waits for its turn since.
func queued(after time.Duration) modifier {
	return func(item *v1alpha1.DeployItem) {
		contract.Enqueue("a free worker")(item, item.DeletionTimestamp != nil, deployer, noon.Add(after))
	}
}

// limited is an item whose job was picked up with a time other than the usual one.
func limited(timeout time.Duration) modifier {
	return func(item *v1alpha1.DeployItem) { contract.LimitTime(item, timeout, 0, noon) }
}

func newCondition(
	conditionType v1alpha1.ConditionType, status v1alpha1.ConditionStatus, reason, message string, after time.Duration,
) v1alpha1.Condition {
	return v1alpha1.Condition{
		Type: conditionType, Status: status, Reason: reason, Message: message,
		LastTransitionTime: *at(after), LastUpdateTime: *at(after),
	}
}

// asks is an item that somebody asks for an operation of.
func asks(operation string) modifier { return annotated(v1alpha1.OperationAnnotation, operation) }

func annotated(key, value string) modifier {
	return func(item *v1alpha1.DeployItem) {
		if item.Annotations == nil {
			item.Annotations = map[string]string{}
		}
		item.Annotations[key] = value
	}
}

// accepts is an item for which an operation was asked for and accepted at noon, with a minute for an abort.
func accepts(operation string) modifier { return acceptsAt(operation, noon) }

func acceptsAt(operation string, at time.Time) modifier {
	return func(item *v1alpha1.DeployItem) {
		asks(operation)(item)
		contract.AcceptOperation(item, "job-3", time.Minute, at)
	}
}

func failedWith(operation, reason string) modifier {
	return func(item *v1alpha1.DeployItem) {
		contract.Fail(
			item, item.DeletionTimestamp != nil, contract.Error{Operation: operation, Reason: reason, Message: "gone"}, noon,
		)
	}
}

func hasFinalizer(item *v1alpha1.DeployItem) { item.Finalizers = []string{v1alpha1.Finalizer} }

func timeout(d v1alpha1.Duration) modifier {
	return func(item *v1alpha1.DeployItem) { item.Spec.Timeout = d }
}

func onChangeOnly(observed int64) modifier {
	return func(item *v1alpha1.DeployItem) {
		item.Spec.UpdateOnChangeOnly, item.Status.ObservedGeneration = true, observed
	}
}

func jobSet(after time.Duration) modifier {
	return func(item *v1alpha1.DeployItem) { item.Status.JobIDGenerationTime = at(after) }
}

// recordedAs is an error in a status, with the times of its first and its last record.
func recordedAs(e contract.Error, transition, update time.Duration) *v1alpha1.Error {
	return &v1alpha1.Error{
		Operation: e.Operation, Reason: e.Reason, Message: e.Message, Codes: e.Codes,
		LastTransitionTime: *at(transition), LastUpdateTime: *at(update),
	}
}

func failWith(t *testing.T, reason, diff string) {
	t.Helper()
	if diff != "" {
		t.Errorf("%s (-want +got):\n%s", reason, diff)
	}
}
