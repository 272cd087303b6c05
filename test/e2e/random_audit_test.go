package e2e

import (
	"bufio"
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// write is an entry of the audit log about a request to write a deploy item, with its body and that of the answer.
type write struct {
	request
	RequestReceivedTimestamp      metav1.MicroTime
	RequestObject, ResponseObject json.RawMessage

	// before and after are the item as the write found it and as it left it; nil for a write that was refused.
	before, after *v1alpha1.DeployItem
	// found is before as the API server has answered it.
	found json.RawMessage
}

// ours tells whether the host has made the request.
func (w *write) ours() bool { return strings.HasPrefix(w.UserAgent, "pergola-host") }

func (w *write) succeeded() bool { return w.ResponseStatus.Code >= 200 && w.ResponseStatus.Code < 300 }

// toStatus tells whether the request is for the status, and not for the item itself.
func (w *write) toStatus() bool { return w.ObjectRef.Subresource == "status" }

// readAudit reads the requests since a mark that write deploy items of the audited namespace.
func readAudit(t *testing.T, mark int64) []*write {
	t.Helper()
	var writes []*write
	content, err := os.ReadFile(controlPlane.AuditLog)
	if err != nil {
		t.Fatal(err)
	}
	for line := range bytes.Lines(content[mark:]) {
		w := &write{}
		if err := json.Unmarshal(line, w); err != nil {
			t.Fatalf("decode audit log: %v", err)
		}
		if w.ObjectRef.Resource == "deployitems" && slices.Contains([]string{"create", "update", "patch", "delete"}, w.Verb) {
			writes = append(writes, w)
		}
	}
	return writes
}

// call is a record of the plugin chaos: the beginning of a call, its end, or what it met in between.
type call struct {
	Time                                  time.Time
	Event, Outcome, Operation, JobID, UID string
	Name                                  string
	PID                                   int
}

// kind is how a call has ended, in few words.
func (c call) kind() string {
	if c.Event != "end" {
		return c.Event
	}
	return strings.SplitN(c.Outcome, ":", 2)[0]
}

// readTrace reads what the plugin has recorded, which may be nothing.
func readTrace(t *testing.T, file string) []call {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	var calls []call
	scanner := bufio.NewScanner(bytes.NewReader(content))
	for scanner.Scan() {
		c := call{}
		if err := json.Unmarshal(scanner.Bytes(), &c); err != nil {
			t.Fatalf("decode trace: %v", err)
		}
		calls = append(calls, c)
	}
	return calls
}

// history is everything that has happened to one deploy item.
type history struct {
	name, uid string
	// writes in the order in which the API server has carried them out, and after them those that it has refused.
	writes, refused []*write
	calls           []call

	// ours is how many writes the host has made, and finished are the jobs that it has ended; both are there after the check.
	ours     int
	finished []string
}

// newHistories sorts writes and calls by the items, and the items' writes by their resourceVersions.
func newHistories(log []*write, names []string, calls []call) []*history {
	byUID := map[string]*history{}
	var histories []*history
	for _, w := range log {
		item := &v1alpha1.DeployItem{}
		answered := w.succeeded() && json.Unmarshal(w.ResponseObject, item) == nil && item.Kind == "DeployItem"
		if !slices.Contains(names, w.ObjectRef.Name) && !slices.Contains(names, item.Name) {
			continue
		}
		uid := string(item.UID)
		if !answered {
			uid = requestedUID(w)
		}
		h := byUID[uid]
		if h == nil {
			h = &history{uid: uid, name: cmp.Or(w.ObjectRef.Name, item.Name)}
			byUID[uid] = h
			histories = append(histories, h)
		}
		if !answered {
			h.refused = append(h.refused, w)
			continue
		}
		w.after = item
		h.writes = append(h.writes, w)
	}
	for _, h := range histories {
		h.calls = slices.DeleteFunc(slices.Clone(calls), func(c call) bool { return c.UID != h.uid })
		h.order()
	}
	return histories
}

// requestedUID is the UID that a request is for, if it or its answer says so.
func requestedUID(w *write) string {
	var body metav1.PartialObjectMetadata
	var answer metav1.Status
	if json.Unmarshal(w.ResponseObject, &answer) == nil && answer.Details != nil && answer.Details.UID != "" {
		return string(answer.Details.UID)
	}
	if json.Unmarshal(w.RequestObject, &body) != nil {
		return ""
	}
	return string(body.UID)
}

// last tells whether a write has taken the last finalizer away, and the item with it. The API server answers with the version that
// the write has found, and deletes the item even if somebody has written since.
func (w *write) last() bool { return w.after.DeletionTimestamp != nil && len(w.after.Finalizers) == 0 }

// made tells whether a write is known to have made the version that it was answered with. One that changes nothing, such as a second deletion, is
// answered with the version that another one has made, and may be in the log before that.
func (w *write) made() bool {
	var body metav1.PartialObjectMetadata
	return w.Verb == "create" ||
		json.Unmarshal(w.RequestObject, &body) == nil && body.ResourceVersion != "" && body.ResourceVersion != w.after.ResourceVersion
}

// order brings the writes into the order of the versions that they have made, and gives each what it has found.
func (h *history) order() {
	slices.SortStableFunc(h.writes, func(a, b *write) int {
		switch {
		case a.last() && !b.last():
			return 1
		case b.last() && !a.last():
			return -1
		}
		order, err := resourceversion.CompareResourceVersion(a.after.ResourceVersion, b.after.ResourceVersion)
		switch {
		case err != nil: // an API server gives out numbers
			return 0
		case order == 0 && a.made() && !b.made():
			return -1
		case order == 0 && b.made() && !a.made():
			return 1
		}
		return order
	})
	h.findUnanswered()
	for i, w := range h.writes {
		for _, earlier := range slices.Backward(h.writes[:i]) {
			if !w.last() || earlier.after.ResourceVersion == w.after.ResourceVersion {
				w.before, w.found = earlier.after, earlier.ResponseObject
				break
			}
		}
	}
}

// findUnanswered adds the writes that were carried out although their answer is an error: the host was killed while it waited. Such a
// write is betrayed by the next one, which is made to a version that is otherwise not known.
func (h *history) findUnanswered() {
	var all []*write
	for _, w := range h.writes {
		if len(all) > 0 && !w.last() {
			if unanswered := h.between(all[len(all)-1], w); unanswered != nil {
				all = append(all, unanswered)
			}
		}
		all = append(all, w)
	}
	h.writes = all
}

// between returns the patch without an answer that comes between two writes; nil if there is none.
func (h *history) between(earlier, later *write) *write {
	version := requestedVersion(later)
	if version == "" || version == earlier.after.ResourceVersion {
		return nil
	}
	for _, w := range h.refused {
		if !w.abandoned() || w.Verb != "patch" || requestedVersion(w) != earlier.after.ResourceVersion {
			continue
		}
		result := document(earlier.ResponseObject)
		var patch map[string]any
		if json.Unmarshal(w.RequestObject, &patch) != nil {
			return nil
		}
		mergeInto(result.Object, patch)
		result.SetResourceVersion(version)
		answered := *w
		answered.after = &v1alpha1.DeployItem{}
		var err error
		if answered.ResponseObject, err = result.MarshalJSON(); err != nil || json.Unmarshal(answered.ResponseObject, answered.after) != nil {
			return nil
		}
		return &answered
	}
	return nil
}

// What the audit log has for a request whose client has gone: the first one, or the second one if the storage notices it before the server does.
const (
	gatewayTimeout = 504
	internalError  = 500
)

// abandoned tells whether nobody has waited for the answer: the host was killed. Whether the write was carried out is not known.
func (w *write) abandoned() bool {
	return w.ResponseStatus.Code == gatewayTimeout ||
		w.ResponseStatus.Code == internalError && strings.Contains(strings.ToLower(w.ResponseStatus.Message), "context canceled")
}

// requestedVersion is the version that a request is for, if it says so.
func requestedVersion(w *write) string {
	var body metav1.PartialObjectMetadata
	if json.Unmarshal(w.RequestObject, &body) != nil {
		return ""
	}
	return body.ResourceVersion
}

// mergeInto applies a JSON merge patch.
func mergeInto(document, patch map[string]any) {
	for key, value := range patch {
		inner, isObject := value.(map[string]any)
		switch before, wasObject := document[key].(map[string]any); {
		case value == nil:
			delete(document, key)
		case isObject && wasObject:
			mergeInto(before, inner)
		case isObject:
			document[key] = map[string]any{}
			mergeInto(document[key].(map[string]any), inner)
		default:
			document[key] = value
		}
	}
}

// describe prints what is wrong and the whole history.
func (h *history) describe(violations []string) string {
	type line struct {
		at   time.Time
		text string
	}
	var lines []line
	for _, w := range append(slices.Clone(h.writes), h.refused...) {
		lines = append(lines, line{w.RequestReceivedTimestamp.Time, w.String()})
	}
	for _, c := range h.calls {
		lines = append(lines, line{c.Time, fmt.Sprintf("    plugin %d: %s %s %s %s", c.PID, c.Event, c.Operation, c.JobID, c.Outcome)})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return a.at.Compare(b.at) })
	var text strings.Builder
	for _, violation := range violations {
		fmt.Fprintln(&text, "VIOLATION", violation)
	}
	for _, l := range lines {
		fmt.Fprintln(&text, l.at.UTC().Format("15:04:05.000000"), l.text)
	}
	return text.String()
}

// String says who has done what, and what has come of it.
func (w *write) String() string {
	resource := strings.TrimSuffix("item/"+w.ObjectRef.Subresource, "/")
	text := fmt.Sprintf("%s: %s %s -> %d", strings.SplitN(w.UserAgent, "/", 2)[0], w.Verb, resource, w.ResponseStatus.Code)
	if w.after != nil {
		text += "; " + state(w.after)
	}
	if w.ours() {
		text += "; request " + string(w.RequestObject)
	}
	return text
}

// state is an item's state as far as the deployer contract goes.
func state(item *v1alpha1.DeployItem) string {
	s := &item.Status
	text := fmt.Sprintf("version %s, generation %d, phase %q, jobID %q, jobIDFinished %q, picked up %q, finalizers %v",
		item.ResourceVersion, item.Generation, s.Phase, s.JobID, s.JobIDFinished, pickedUpJob(item), item.Finalizers)
	if item.DeletionTimestamp != nil {
		text += ", being deleted"
	}
	if s.LastError != nil {
		text += ", last error " + s.LastError.Reason
	}
	for _, annotation := range []string{v1alpha1.OperationAnnotation, acceptedAnnotation} {
		if value := item.Annotations[annotation]; value != "" {
			text += ", " + annotation + " " + value
		}
	}
	return text
}
