package chaos

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// acceptedAnnotation is where the host notes the operation that it has accepted.
	acceptedAnnotation = "host.pergola.dev/operation"
	// writeTakes is how long after a call a host may be writing its outcome, on a machine that is busy.
	writeTakes = 5 * time.Second
	// startTakes is how long an API server may refuse requests after its start.
	startTakes = 30 * time.Second
)

// judge looks at what has happened to deploy items, and says what the hosts must not have done.
type judge struct {
	t *testing.T
	// calm: nobody but the hosts has written deploy items, but for setting jobs where there was none, and each job
	// can succeed in the end.
	calm bool
	// restarts of the API server. One that is killed does not log all that it has done, so that each look is at what
	// was logged between two of them.
	restarts []time.Time

	hostWrites, jobs, takeovers int
	outcomes                    map[string]int // calls by how they have ended
	violations                  []string
}

// look judges what the API server and the plugin have recorded. partial says that it does not begin at the beginning.
func (j *judge) look(auditLog string, calls []call, partial bool) {
	j.t.Helper()
	for _, h := range j.newHistories(readWrites(j.t, auditLog), calls, partial) {
		h.check()
		if len(h.wrong) > 0 {
			j.violations = append(j.violations, h.wrong...)
			j.t.Errorf("deploy item %s:\n%s", h.name, h)
		}
		j.jobs += len(h.finished)
	}
}

// restarted reports whether the API server was killed between two times.
func (j *judge) restarted(from, to time.Time) bool {
	return slices.ContainsFunc(j.restarts, func(at time.Time) bool { return at.After(from) && at.Before(to) })
}

func (h *history) report(at time.Time, format string, args ...any) {
	h.wrong = append(h.wrong, at.UTC().Format("15:04:05.000000 VIOLATION ")+fmt.Sprintf(format, args...))
}

// wrongBy reports what is wrong with a write.
func (h *history) wrongBy(w *write, format string, args ...any) {
	h.report(w.RequestReceivedTimestamp.Time, format, args...)
}

// pickUp is a write of the host that begins a job, or ends one in the same breath.
type pickUp struct {
	jobID    string
	deletion bool
	// idle: the job waits for its turn, or has ended already, and no deployer may be called.
	idle bool
	at   time.Time
}

// check says what is wrong in all that has happened.
func (h *history) check() {
	for _, w := range h.writes {
		if h.calm && w.before != nil && w.before.Status.JobID != w.before.Status.JobIDFinished &&
			w.after.Status.JobID != w.before.Status.JobID {
			h.wrongBy(w, "job %q was lost to %q", w.before.Status.JobID, w.after.Status.JobID)
		}
		if !w.ours() {
			continue
		}
		h.hostWrites++
		if w.after.Spec.Type == foreignType {
			h.wrongBy(w, "the host writes an item that is none of its business")
			continue
		}
		h.checkCondition(w)
		if w.before == nil {
			continue
		}
		h.checkHolder(w)
		h.checkFields(w)
		if w.toStatus() {
			h.pickUp(w)
			h.checkStatus(w)
		} else {
			h.checkMetadata(w)
		}
	}
	for _, w := range h.refused {
		h.checkRefused(w)
	}
	h.checkLocks()
	h.checkCalls()
}

// checkCondition: each write of the host is a patch that is made only to the very version of the item that it was
// decided on. The history knows that version, so that no write is missing in it.
func (h *history) checkCondition(w *write) {
	switch {
	case w.Verb != "patch":
		h.wrongBy(w, "the host does %s the item", w.Verb)
	case w.body.ResourceVersion == "":
		h.wrongBy(w, "the write is not conditional: %s", w.RequestObject)
	case w.before == nil && !h.partial:
		h.wrongBy(w, "the host writes an item that nobody has created")
	case w.before != nil && w.body.ResourceVersion != w.before.ResourceVersion:
		h.wrongBy(w, "the write is for version %s and was made to %s", w.body.ResourceVersion, w.before.ResourceVersion)
	}
}

// checkRefused: a write of the host is refused because somebody else was faster, or has no answer because the host
// was killed.
func (h *history) checkRefused(w *write) {
	at, code := w.RequestReceivedTimestamp.Time, w.ResponseStatus.Code
	expected := code == http.StatusConflict || code == http.StatusNotFound || w.abandoned() ||
		h.restarted(at.Add(-startTakes), at)
	if w.body.ResourceVersion == "" || !expected {
		h.wrongBy(w, "the write was refused with code %d: %s: %s", code, w.ResponseStatus.Message, w.RequestObject)
	}
}

// checkHolder: a write is made by the replica that holds the item's lock. Only the pick-up of a job that waits for a
// free worker is made without, and the write that sets a job where there is no Landscaper.
func (h *history) checkHolder(w *write) {
	is := &w.after.Status
	setsJob := is.JobID != w.before.Status.JobID && pickedUpJob(w.after) != is.JobID
	if !w.made() || w.last() || setsJob || w.toStatus() && begins(w.after) && queued(w.after) {
		return
	}
	holder, known := "", !h.partial
	for _, l := range h.locks {
		if compare(l.version, w.after.ResourceVersion) < 0 {
			holder, known = l.holder, true
		}
	}
	if known && holder != w.User.Username {
		h.wrongBy(w, "%s writes the item while its lock is held by %q", w.User.Username, holder)
	}
}

// checkLocks: nobody takes a lock in another's name, and nobody gives up one that another holds.
func (h *history) checkLocks() {
	for i, l := range h.locks {
		switch {
		case l.holder != "" && l.holder != l.by:
			h.report(time.Time{}, "%s gives the lock to %s", l.by, l.holder)
		case l.holder == "" && (i > 0 || !h.partial) && (i == 0 || h.locks[i-1].holder != l.by):
			h.report(time.Time{}, "%s gives up a lock that it does not hold", l.by)
		case l.holder != "" && i > 0 && h.locks[i-1].holder != "" && h.locks[i-1].holder != l.holder:
			h.takeovers++
		}
	}
}

// checkFields: a write to the status changes nothing else, and one to the item nothing but Landscaper's finalizer and
// the annotations for operations. Fields that our types do not know count, too.
func (h *history) checkFields(w *write) {
	rest := func(raw []byte) map[string]any {
		item := &unstructured.Unstructured{}
		if err := item.UnmarshalJSON(raw); err != nil {
			h.wrongBy(w, "an answer cannot be decoded: %v", err)
			return nil
		}
		item.SetResourceVersion("")
		if w.toStatus() {
			delete(item.Object, "status")
			return item.Object
		}
		finalizers := slices.DeleteFunc(item.GetFinalizers(), func(f string) bool { return f == v1alpha1.Finalizer })
		annotations := item.GetAnnotations()
		delete(annotations, v1alpha1.OperationAnnotation)
		delete(annotations, acceptedAnnotation)
		unstructured.RemoveNestedField(item.Object, "metadata", "finalizers")
		unstructured.RemoveNestedField(item.Object, "metadata", "annotations")
		return map[string]any{"item": item.Object, "others": fmt.Sprint(finalizers, annotations)}
	}
	if diff := cmp.Diff(rest(w.found), rest(w.ResponseObject)); diff != "" {
		h.wrongBy(w, "the write changes what is not the host's (-before +after):\n%s", diff)
	}
}

// checkMetadata: the finalizer goes only when the deployer was called in this job and has deleted everything, or if
// the user wants to leave it behind; and an operation that was accepted is not there any more.
func (h *history) checkMetadata(w *write) {
	goes := slices.Contains(w.before.Finalizers, v1alpha1.Finalizer) &&
		!slices.Contains(w.after.Finalizers, v1alpha1.Finalizer)
	deleted := func(call call) bool {
		return call.Event == "end" && call.Operation == "Delete" && call.Outcome == "succeeded" &&
			call.JobID == w.before.Status.JobID && call.Time.Before(w.RequestReceivedTimestamp.Time)
	}
	leaveBehind := w.before.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] == "true"
	if goes && (w.before.DeletionTimestamp == nil || !leaveBehind && !slices.ContainsFunc(h.calls, deleted)) {
		h.wrongBy(w, "the finalizer goes without a Delete that has succeeded in job %q", w.before.Status.JobID)
	}
	_, asks := w.after.Annotations[v1alpha1.OperationAnnotation]
	if asks && w.after.Annotations[acceptedAnnotation] != w.before.Annotations[acceptedAnnotation] {
		h.wrongBy(w, "an operation was accepted, and its annotation is still there")
	}
}

// checkStatus: a finished job stays as it is; a job is finished by a final phase and jobIDFinished in one write, and
// once; and never is finished what was not picked up.
func (h *history) checkStatus(w *write) {
	was, is := &w.before.Status, &w.after.Status
	if is.JobID == was.JobID && was.JobID == was.JobIDFinished {
		// Finished by the host, or interrupted by Landscaper. Only what the host's own conditions say of it may follow,
		// and what the deployer has created before its call was cancelled.
		rest := cmpopts.IgnoreFields(v1alpha1.DeployItemStatus{}, "Conditions", "ProviderStatus")
		if diff := cmp.Diff(*was, *is, rest); diff != "" {
			h.wrongBy(w, "the host changes the finished job %q (-before +after):\n%s", was.JobID, diff)
		}
		return
	}
	// Whatever the write has found, such as Landscaper's new job beside the final phase of the last one, it leaves no
	// such thing.
	if is.Phase.IsFinal() != (is.JobIDFinished == is.JobID) {
		h.wrongBy(w, "the write leaves phase %q with jobID %q and jobIDFinished %q", is.Phase, is.JobID, is.JobIDFinished)
	}
	if is.JobID != was.JobID && was.JobID != was.JobIDFinished {
		h.wrongBy(w, "the host replaces job %q, which is not finished, by %q", was.JobID, is.JobID)
	}
	if is.JobIDFinished == was.JobIDFinished {
		return
	}
	last := len(h.picked) - 1
	if last >= 0 && h.picked[last].jobID != is.JobIDFinished || last < 0 && !h.partial {
		h.wrongBy(w, "the host finishes job %q, which is not the one that it has picked up last", is.JobIDFinished)
	}
	if slices.Contains(h.finished, is.JobIDFinished) {
		h.wrongBy(w, "the host finishes job %q again", is.JobIDFinished)
	}
	h.finished = append(h.finished, is.JobIDFinished)
	if h.calm && is.Phase != v1alpha1.DeployItemPhaseSucceeded {
		h.wrongBy(w, "job %q ends in phase %s, though whatever stood in its way has passed", is.JobID, is.Phase)
	}
}

// pickUp notes the pick-up that a write is, if it is one. A job is picked up when Landscaper says so, and by a
// condition that names it.
func (h *history) pickUp(w *write) {
	is := &w.after.Status
	// A pick-up may be one write with what follows, up to the end of the job.
	named := pickedUpJob(w.after) != pickedUpJob(w.before)
	seen := !is.LastReconcileTime.Before(is.JobIDGenerationTime)
	if seen && pickedUpJob(w.after) == is.JobID && (begins(w.after) || named) {
		h.picked = append(h.picked, pickUp{
			jobID: is.JobID, at: w.RequestReceivedTimestamp.Time,
			deletion: is.Phase.IsDeletion(), idle: queued(w.after) || is.Phase.IsFinal(),
		})
	}
}

func begins(item *v1alpha1.DeployItem) bool {
	return item.Status.Phase == v1alpha1.DeployItemPhaseInit || item.Status.Phase == v1alpha1.DeployItemPhaseInitDelete
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

// checkCalls: the plugin is called for no job but the one that was picked up last, for what it was picked up for, and
// after it was; no two calls for an item are under way at the same time; and what was saved in a provider status is
// there in the next call. Where nobody interferes, a call that has succeeded is made again only if its host could not
// write so: it was killed, and another one makes it, or the API server was.
func (h *history) checkCalls() {
	succeeded := map[string]call{}
	for _, made := range h.calls {
		if made.Event == "end" {
			kind, _, _ := strings.Cut(made.Outcome, ":")
			h.outcomes[kind]++
		}
		switch {
		case made.Event == "lost":
			h.report(made.Time, "the provider status was lost: %s", made.Outcome)
		case made.Event == "overlap":
			h.report(made.Time, "process %d is called while another call for the item is under way", made.PID)
		case made.Outcome == "succeeded":
			succeeded[made.JobID] = made
		case made.Event == "begin":
			if last := h.lastBefore(made.Time); !h.covers(last, made) {
				h.report(made.Time, "a call for %s of job %q; picked up was %+v", made.Operation, made.JobID, last)
			}
			before, again := succeeded[made.JobID]
			if h.calm && again && before.PID == made.PID && !h.restarted(before.Time.Add(-writeTakes), made.Time) {
				h.report(made.Time, "process %d is called again, though its host could write its success", made.PID)
			}
		}
	}
}

// lastBefore is the last pick-up before a time; nil if there is none.
func (h *history) lastBefore(at time.Time) *pickUp {
	for _, p := range slices.Backward(h.picked) {
		if p.at.Before(at) {
			return &p
		}
	}
	return nil
}

// covers reports whether a call may be made after the pick-up, as far as anybody knows.
func (h *history) covers(p *pickUp, made call) bool {
	if p == nil && h.partial || h.restarted(made.Time.Add(-writeTakes), made.Time.Add(writeTakes)) {
		return true
	}
	return p != nil && p.jobID == made.JobID && !p.idle &&
		(made.Operation == "Abort" || p.deletion == (made.Operation == "Delete"))
}
