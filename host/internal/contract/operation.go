package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// AcceptedAnnotation notes the last accepted operation.
const AcceptedAnnotation = "host.pergola.dev/operation"

// accepted is the note of an accepted operation. Its methods take nil for none.
type accepted struct {
	// Operation is one of the values of v1alpha1.OperationAnnotation.
	Operation string `json:"operation"`
	// At is the time at which a forced reconcile was accepted. It tells two of them in one job apart.
	At string `json:"at,omitempty"`
	// JobID is the job of the operation: the running one, or the one to set.
	JobID string `json:"jobID"`
	// Previous is the finished job before the one to set. It is JobID itself for a running job.
	Previous string `json:"after"`
	// Deletion: the job to abort is a deletion.
	Deletion bool `json:"deletion,omitempty"`
	// Until is the deadline of an abort.
	Until *v1alpha1.Time `json:"until,omitempty"`
}

// acceptedOf reads the note of an item; nil for none, and for a note not written by Pergola.
func acceptedOf(item *v1alpha1.DeployItem) *accepted {
	text, ok := item.Annotations[AcceptedAnnotation]
	if !ok {
		return nil
	}
	a := &accepted{}
	if err := json.Unmarshal([]byte(text), a); err != nil || a.JobID == "" {
		return nil
	}
	return a
}

// starts reports whether the job still has to be set.
func (a *accepted) starts(status *v1alpha1.DeployItemStatus) bool {
	return a != nil && a.Operation != v1alpha1.OperationAbort && a.JobID != a.Previous &&
		status.JobID == a.Previous && startedJob(status) != a.JobID
}

// forces reports whether the current job, or the job to set, start, is forced, by now or since an earlier call.
func (a *accepted) forces(item *v1alpha1.DeployItem, start string) bool {
	if a == nil || a.Operation != v1alpha1.OperationForceReconcile {
		return false
	}
	return a.JobID == start || a.JobID == item.Status.JobID && !Finished(item)
}

// NoteForced notes the answer of the deployer to a forced reconcile: the job goes on with usual ones.
func NoteForced(item *v1alpha1.DeployItem, now time.Time) {
	if a := acceptedOf(item); a != nil {
		setCondition(&item.Status, ConditionForced, v1alpha1.ConditionTrue, reasonForced, a.At, now)
	}
}

// forced reports whether the deployer has answered since the operation was accepted.
func (a *accepted) forced(status *v1alpha1.DeployItemStatus) bool {
	c := condition(status, ConditionForced)
	return c != nil && c.Message == a.At
}

// aborts reports whether the current job is to be aborted.
func (a *accepted) aborts(item *v1alpha1.DeployItem) bool {
	return a != nil && a.Operation == v1alpha1.OperationAbort && a.Until != nil &&
		a.JobID == item.Status.JobID && !Finished(item) &&
		a.Deletion == (item.DeletionTimestamp != nil)
}

// operations are the values of v1alpha1.OperationAnnotation.
var operations = []string{
	v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile,
	v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort,
}

// UnknownOperation returns the requested operation of an item if there is no such operation; empty otherwise.
func UnknownOperation(item *v1alpha1.DeployItem) string {
	if operation := item.Annotations[v1alpha1.OperationAnnotation]; !slices.Contains(operations, operation) {
		return operation
	}
	return ""
}

// acceptable reports whether an item requests an operation that can begin now. A new job has to wait for the end of the
// running one: Landscaper would take its own job for lost. Neither a deletion nor a job being aborted can be forced.
func acceptable(item *v1alpha1.DeployItem, accepted *accepted) bool {
	finished := Finished(item)
	switch operation := item.Annotations[v1alpha1.OperationAnnotation]; operation {
	case v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile:
		return finished
	case v1alpha1.OperationForceReconcile:
		return finished || item.DeletionTimestamp == nil && !accepted.aborts(item)
	default:
		return slices.Contains(operations, operation)
	}
}

// AcceptOperation changes the metadata of an item for which Decide returns Accept: it replaces the requesting
// annotation by the note. newJob is the job to set if none is running. An abort may take abortTimeout; without a
// running job it withdraws an accepted operation. It returns the operation, and whether it has an effect: an abort
// without a job has none.
func AcceptOperation(
	item *v1alpha1.DeployItem, newJob string, abortTimeout time.Duration, now time.Time,
) (operation string, effective bool) {
	status, underWay := &item.Status, !Finished(item)
	operation = item.Annotations[v1alpha1.OperationAnnotation]
	item.Annotations = maps.Clone(item.Annotations)
	delete(item.Annotations, v1alpha1.OperationAnnotation)
	note := accepted{Operation: operation, JobID: newJob, Previous: status.JobID}
	if operation == v1alpha1.OperationForceReconcile {
		note.At = now.UTC().Format(time.RFC3339Nano)
	}
	if underWay {
		note.JobID = status.JobID
	}
	if operation == v1alpha1.OperationAbort {
		if !underWay {
			withdrawn := acceptedOf(item).starts(status)
			if withdrawn {
				delete(item.Annotations, AcceptedAnnotation)
			}
			return operation, withdrawn
		}
		if acceptedOf(item).aborts(item) {
			return operation, true // the time of the abort goes on
		}
		until := wholeSeconds(now.Add(abortTimeout + time.Second - 1))
		note.Deletion, note.Until = item.DeletionTimestamp != nil, &until
	}
	text, err := json.Marshal(note)
	if err != nil { // texts and times marshal
		return operation, false
	}
	item.Annotations[AcceptedAnnotation] = string(text)
	return operation, true
}
