package e2e

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// acceptedAnnotation is where the host notes the operation that it has accepted.
const acceptedAnnotation = "host.pergola.dev/operation"

// pickUp is a write of the host that begins a job, or ends one in the same breath.
type pickUp struct {
	jobID    string
	deletion bool
	// idle: the job waits for its turn, or has ended already, and no deployer may be called.
	idle bool
	at   time.Time
}

// check returns what the host has done to the item that it must not do.
func (h *history) check() (violations []string) {
	report := func(w *write, format string, args ...any) {
		violations = append(violations, fmt.Sprintf("%s: ", w.RequestReceivedTimestamp.UTC().Format("15:04:05.000000"))+fmt.Sprintf(format, args...))
	}
	var picked []pickUp
	for _, w := range h.writes {
		if !w.ours() {
			continue
		}
		h.ours++
		checkCondition(w, report)
		if w.before == nil {
			continue
		}
		if !w.toStatus() {
			h.checkMetadata(w, report)
			continue
		}
		if p := pickUpOf(w); p != nil {
			picked = append(picked, *p)
		}
		h.checkStatus(w, picked, report)
	}
	for _, w := range h.refused {
		if w.ours() {
			h.checkRefused(w, report)
		}
	}
	return append(violations, h.checkCalls(picked)...)
}

type report func(w *write, format string, args ...any)

// checkCondition: each write of the host is a patch that is made only to the very version of the very item that it was decided on.
// The history knows that version, so that no write is missing in it.
func checkCondition(w *write, report report) {
	var body v1alpha1.DeployItem
	switch err := json.Unmarshal(w.RequestObject, &body); {
	case err != nil || w.Verb != "patch":
		report(w, "the host does %s the item with a body that is no patch: %v", w.Verb, err)
	case w.before == nil:
		report(w, "the host writes an item that nobody has created")
	case body.ResourceVersion == "" || body.UID == "":
		report(w, "the write is not conditional: %s", w.RequestObject)
	case body.ResourceVersion != w.before.ResourceVersion || body.UID != w.before.UID:
		report(w, "the write is for version %s of %s and was made to %s of %s", body.ResourceVersion, body.UID, w.before.ResourceVersion, w.before.UID)
	}
}

// checkRefused: a write of the host is refused because somebody else was faster, or has no answer because the host was killed.
func (h *history) checkRefused(w *write, report report) {
	if len(w.RequestObject) == 0 && w.ResponseStatus.Code == internalError {
		return // the host was killed in the middle of sending it
	}
	var body v1alpha1.DeployItem
	if err := json.Unmarshal(w.RequestObject, &body); err != nil || body.ResourceVersion == "" {
		report(w, "the refused write is not conditional: %s", w.RequestObject)
	}
	if code := w.ResponseStatus.Code; code != 409 && code != 404 && !w.abandoned() {
		report(w, "the write was refused with code %d: %s", code, w.ResponseStatus.Message)
	}
}

// checkMetadata: a write to the item itself changes nothing but Landscaper's finalizer and the annotations for operations, and
// the finalizer goes only when it may.
func (h *history) checkMetadata(w *write, report report) {
	had, has := slices.Contains(w.before.Finalizers, v1alpha1.Finalizer), slices.Contains(w.after.Finalizers, v1alpha1.Finalizer)
	if had && !has && !h.mayLetGo(w) {
		report(w, "the finalizer goes without a Delete that has succeeded in job %q", w.before.Status.JobID)
	}
	_, asks := w.after.Annotations[v1alpha1.OperationAnnotation]
	if asks && w.after.Annotations[acceptedAnnotation] != w.before.Annotations[acceptedAnnotation] {
		report(w, "an operation was accepted, and its annotation is still there")
	}
	before, after := document(w.found), document(w.ResponseObject)
	for _, item := range []*unstructured.Unstructured{before, after} {
		finalizers := slices.DeleteFunc(item.GetFinalizers(), func(f string) bool { return f == v1alpha1.Finalizer })
		unstructured.RemoveNestedField(item.Object, "metadata", "finalizers")
		if len(finalizers) > 0 {
			item.SetFinalizers(finalizers)
		}
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations", v1alpha1.OperationAnnotation)
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations", acceptedAnnotation)
		item.SetResourceVersion("")
	}
	if diff := cmp.Diff(before, after); diff != "" {
		report(w, "a write to the metadata changes what is not the host's (-before +after):\n%s", diff)
	}
}

// document is an item with all its fields, even those that our types do not know.
func document(raw []byte) *unstructured.Unstructured {
	item := &unstructured.Unstructured{}
	if err := item.UnmarshalJSON(raw); err != nil {
		item.SetName("not to be decoded: " + err.Error())
	}
	return item
}

// mayLetGo tells whether the finalizer may go: the deployer was called in this job and has deleted everything, or the user wants to
// leave it behind.
func (h *history) mayLetGo(w *write) bool {
	if w.before.DeletionTimestamp == nil {
		return false
	}
	return w.before.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] == "true" ||
		slices.ContainsFunc(h.calls, func(c call) bool {
			return c.Event == "end" && c.Operation == "Delete" && c.Outcome == "succeeded" &&
				c.JobID == w.before.Status.JobID && c.Time.Before(w.RequestReceivedTimestamp.Time)
		})
}

// checkStatus: a write to the status changes nothing else; a finished job stays as it is; a job is finished by a final phase and
// jobIDFinished in one write, and never was finished what was not picked up.
func (h *history) checkStatus(w *write, picked []pickUp, report report) {
	was, is := &w.before.Status, &w.after.Status
	before, after := document(w.found), document(w.ResponseObject)
	for _, item := range []*unstructured.Unstructured{before, after} {
		delete(item.Object, "status")
		item.SetResourceVersion("")
	}
	if diff := cmp.Diff(before, after); diff != "" {
		report(w, "a write to the status changes what is not status (-before +after):\n%s", diff)
	}
	if is.JobID == was.JobID && was.JobID == was.JobIDFinished {
		checkFinished(w, report)
		return
	}
	// Whatever the write has found, such as Landscaper's new job beside the final phase of the last one, it leaves no such thing.
	if is.Phase.IsFinal() != (is.JobIDFinished == is.JobID) {
		report(w, "the write leaves phase %q with jobID %q and jobIDFinished %q", is.Phase, is.JobID, is.JobIDFinished)
	}
	if is.JobID != was.JobID && was.JobID != was.JobIDFinished {
		report(w, "the host replaces job %q, which is not finished, by %q", was.JobID, is.JobID)
	}
	if is.JobIDFinished == was.JobIDFinished {
		return
	}
	h.finished = append(h.finished, is.JobIDFinished)
	last := len(picked) - 1
	if last < 0 || picked[last].jobID != is.JobIDFinished {
		report(w, "the host finishes job %q, which is not the one that it has picked up last", is.JobIDFinished)
	}
}

// checkFinished: a job stays as it is that the host has finished, or that Landscaper has interrupted. Only what the host's own
// conditions say of it may follow, and what the deployer has created before its call was cancelled.
func checkFinished(w *write, report report) {
	rest := func(s v1alpha1.DeployItemStatus) v1alpha1.DeployItemStatus {
		s.Conditions, s.ProviderStatus = nil, nil
		return s
	}
	if diff := cmp.Diff(rest(w.before.Status), rest(w.after.Status)); diff != "" {
		report(w, "the host changes the finished job %q (-before +after):\n%s", w.before.Status.JobID, diff)
	}
}

// pickUpOf returns the pick-up that a write is; nil if it is none. A job is picked up when Landscaper says so, and by a condition that
// names it.
func pickUpOf(w *write) *pickUp {
	is := &w.after.Status
	begins := is.Phase == v1alpha1.DeployItemPhaseInit || is.Phase == v1alpha1.DeployItemPhaseInitDelete
	inOne := pickedUpJob(w.after) != pickedUpJob(w.before) && is.JobIDFinished == is.JobID // skipped, or aborted before it began
	seen := !is.LastReconcileTime.Before(is.JobIDGenerationTime)
	if !seen || pickedUpJob(w.after) != is.JobID || (!begins && !inOne) {
		return nil
	}
	return &pickUp{
		jobID: is.JobID, deletion: is.Phase.IsDeletion(), idle: queued(w.after) || is.Phase.IsFinal(), at: w.RequestReceivedTimestamp.Time,
	}
}

func queued(item *v1alpha1.DeployItem) bool {
	return slices.ContainsFunc(item.Status.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == "Reconciling" && c.Reason == "Queued"
	})
}

// pickedUpJob is the job that the item says was picked up last.
func pickedUpJob(item *v1alpha1.DeployItem) string {
	for _, c := range item.Status.Conditions {
		if c.Type == "PickedUp" {
			return c.Message
		}
	}
	return ""
}

// checkCalls: the plugin is called for no job but the one that was picked up last, for what it was picked up for, and after it was;
// a process is in one call for the item at a time; what was saved in a provider status is there in the next call.
func (h *history) checkCalls(picked []pickUp) (violations []string) {
	report := func(c call, format string, args ...any) {
		violations = append(violations, fmt.Sprintf("%s: ", c.Time.UTC().Format("15:04:05.000000"))+fmt.Sprintf(format, args...))
	}
	inCall := map[int]bool{}
	for _, c := range h.calls {
		switch c.Event {
		case "lost":
			report(c, "the provider status was lost: %s", c.Outcome)
		case "end", "panic":
			inCall[c.PID] = false
		case "begin":
			if inCall[c.PID] {
				report(c, "the plugin is called for the item while it is in another call for it")
			}
			inCall[c.PID] = true
			if last := lastBefore(picked, c.Time); !last.covers(c) {
				report(c, "the plugin is called for %s of job %q; picked up was %s", c.Operation, c.JobID, last)
			}
		}
	}
	return violations
}

// lastBefore is the last pick-up before a time; nil if there is none.
func lastBefore(picked []pickUp, at time.Time) *pickUp {
	for _, p := range slices.Backward(picked) {
		if p.at.Before(at) {
			return &p
		}
	}
	return nil
}

func (p *pickUp) String() string {
	if p == nil {
		return "none"
	}
	return fmt.Sprintf("job %q, deletion %t, idle %t", p.jobID, p.deletion, p.idle)
}

// covers tells whether a call may be made after the pick-up.
func (p *pickUp) covers(c call) bool {
	return p != nil && p.jobID == c.JobID && !p.idle && (c.Operation == "Abort" || p.deletion == (c.Operation == "Delete"))
}

// checkForeignItems: an item of another deployer's is not written, nor is it tried.
func (d *disorder) checkForeignItems(log []*write) {
	others := 0
	for _, w := range log {
		if !slices.Contains(d.foreign, w.ObjectRef.Name) {
			continue
		}
		if w.ours() {
			d.t.Errorf("the host writes an item that is none of its business: %s", w)
		}
		others++
	}
	if others == 0 {
		d.t.Error("nobody has touched an item of another deployer's: the test means nothing")
	}
}
