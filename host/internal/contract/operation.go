package contract

import (
	"encoding/json"
	"maps"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// AcceptedAnnotation notes the operation that was accepted last.
const AcceptedAnnotation = "host.pergola.dev/operation"

// accepted is the note of an operation. Its methods take nil for none.
type accepted struct {
	// Operation is one of the values of v1alpha1.OperationAnnotation.
	Operation string `json:"operation"`
	// JobID is the job that the operation is about: the one under way, or the one to be set.
	JobID string `json:"jobID"`
	// After is the finished job that the one to be set follows. It is JobID itself if that was under way.
	After string `json:"after"`
	// Deletion: the job to be aborted is one that deletes.
	Deletion bool `json:"deletion,omitempty"`
	// Until is when an abort has to be done.
	Until *v1alpha1.Time `json:"until,omitempty"`
}

// acceptedOf reads the note of an item. What cannot be read was not written by Pergola, and means nothing.
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

// starts tells whether the job is still to be set.
func (a *accepted) starts(status *v1alpha1.DeployItemStatus) bool {
	return a != nil && a.Operation != v1alpha1.OperationAbort && a.JobID != a.After &&
		status.JobID == a.After && startedJob(status) != a.JobID
}

// forces tells whether the current job, or the one that is to be started, is forced.
func (a *accepted) forces(item *v1alpha1.DeployItem, start string) bool {
	if a == nil || a.Operation != v1alpha1.OperationForceReconcile {
		return false
	}
	return a.JobID == start || a.JobID == item.Status.JobID && !Finished(item)
}

// aborts tells whether the current job is to be ended.
func (a *accepted) aborts(item *v1alpha1.DeployItem) bool {
	return a != nil && a.Operation == v1alpha1.OperationAbort && a.Until != nil &&
		a.JobID == item.Status.JobID && !Finished(item) &&
		a.Deletion == (item.DeletionTimestamp != nil)
}

// operations are the operations that an item can be asked for.
var operations = []string{
	v1alpha1.OperationReconcile, v1alpha1.OperationTestReconcile,
	v1alpha1.OperationForceReconcile, v1alpha1.OperationAbort,
}

// UnknownOperation returns the operation that an item asks for if it is none that there is; empty otherwise.
func UnknownOperation(item *v1alpha1.DeployItem) string {
	if operation := item.Annotations[v1alpha1.OperationAnnotation]; !slices.Contains(operations, operation) {
		return operation
	}
	return ""
}

// acceptable tells whether an item asks for an operation that can begin now. A new job has to wait for the end of the
// one under way: Landscaper would take its own job for lost. A deletion is what it is, and cannot be forced; nor can a
// job that is to be aborted.
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

// AcceptOperation changes the metadata of an item that Decide has said Accept of: the annotation that asks for the
// operation goes, and the note of it comes. newJob is the job to set if none is under way. An abort has to be done
// within abortTimeout. It reports the operation, and whether there is anything to do: not for an abort without a job.
func AcceptOperation(
	item *v1alpha1.DeployItem, newJob string, abortTimeout time.Duration, now time.Time,
) (operation string, effective bool) {
	status, underWay := &item.Status, !Finished(item)
	operation = item.Annotations[v1alpha1.OperationAnnotation]
	item.Annotations = maps.Clone(item.Annotations)
	delete(item.Annotations, v1alpha1.OperationAnnotation)
	note := accepted{Operation: operation, JobID: newJob, After: status.JobID}
	if underWay {
		note.JobID = status.JobID
	}
	if operation == v1alpha1.OperationAbort {
		if !underWay {
			return operation, false
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

// EndAborted changes the status to that of an aborted job whose deployer is not called, or not any more.
func EndAborted(item *v1alpha1.DeployItem, deletion bool, deployer v1alpha1.DeployerInformation, now time.Time) {
	why := "its deployer did not finish the abort in time"
	if !PickedUp(item) {
		Begin(item, deletion, deployer, now)
		why = "before its deployer was called"
	} else if isQueued(&item.Status) {
		why = "before its deployer was called"
	}
	Fail(item, deletion, AbortedError(why), now)
}

// AbortedError is the error that an aborted job ends with. why says more, if there is more to say.
func AbortedError(why string) Error {
	message := "the job was aborted by the annotation " + v1alpha1.OperationAnnotation
	if why != "" {
		message += ": " + why
	}
	return Error{Operation: "Abort", Reason: "Aborted", Message: message, Terminal: true}
}
