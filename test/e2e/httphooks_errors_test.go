package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// answerTooLarge is more than a hook may answer, in bytes.
const answerTooLarge = 65 << 20

// structuredError is the answer of a hook that fails.
type structuredError struct {
	Message   string `json:"message"`
	Permanent *bool  `json:"permanent,omitempty"`
	Continue  *bool  `json:"continue,omitempty"`
}

// structuredErrors are all answers of a hook that fails, by names.
func structuredErrors() map[string]structuredError {
	words := map[string]*bool{"unset": nil, "true": new(bool), "false": new(bool)}
	*words["true"] = true
	answers := map[string]structuredError{}
	for permanent, p := range words {
		for goOn, c := range words {
			answers["permanent-"+permanent+"-continue-"+goOn] = structuredError{Message: "the hook has failed", Permanent: p, Continue: c}
		}
	}
	return answers
}

// outcome is what becomes of a job whose hook fails: it goes on as if the hook had not been asked, which wins, fails at once, or is tried
// again until the hook succeeds.
func (e structuredError) outcome() string {
	switch {
	case e.Continue != nil && *e.Continue:
		return "goes on"
	case e.Permanent != nil && *e.Permanent:
		return "fails"
	default:
		return "is tried again"
	}
}

// answerUntil lets the server fail for an item until agree is called.
func (e structuredError) answerUntil(t *testing.T, s *hookServer, name string) (agree func()) {
	t.Helper()
	s.answer(name, respond(http.StatusInternalServerError, string(marshal(t, e))))
	return func() { s.answer(name, nil) }
}

func failPreReconcile(t *testing.T, h *httpHooked) {
	t.Helper()
	for name, answer := range structuredErrors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := h.with(t)
			item := h.newItem("reconcile-"+name, nil)
			agree := answer.answerUntil(t, h.server, item.Name)
			item = start(t, item)
			switch answer.outcome() {
			case "goes on":
				item = waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
				waitEvent(t, item, "HookFailed")
			case "fails":
				item = waitPhase(t, item, v1alpha1.DeployItemPhaseFailed)
				checkHookError(t, item, "HookPermanentError")
				checkUntouched(t, read(t, item))
			default:
				failing := waitHookError(t, item, "HookFailed")
				if !strings.Contains(failing.Status.LastError.Message, answer.Message) {
					t.Errorf("the message of the hook is not in %q", failing.Status.LastError.Message)
				}
				h.server.waitAsked(t, item, preReconcile, 2)
				agree()
				item = waitPhase(t, item, v1alpha1.DeployItemPhaseSucceeded)
				if c := conditionOf(item, "HookAnswered"); c.Status != v1alpha1.ConditionTrue || item.Status.LastError != nil {
					t.Errorf("expected that nothing is wrong any more, but found %+v, %s", c, describe(item))
				}
			}
		})
	}
}

func failFinalize(t *testing.T, h *httpHooked) {
	t.Helper()
	for name, answer := range structuredErrors() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := h.with(t)
			item := carryOut(t, h.newItem("delete-"+name, nil), v1alpha1.DeployItemPhaseSucceeded)
			agree := answer.answerUntil(t, h.server, item.Name)
			if err := admin.Delete(t.Context(), item); err != nil {
				t.Fatal(err)
			}
			setJob(t, item)
			switch answer.outcome() {
			case "goes on":
				waitEvent(t, item, "HookFailed")
			case "fails":
				item = waitFinished(t, item, read(t, item).Status.JobID)
				if item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed {
					t.Errorf("expected phase DeleteFailed, but found %s", describe(item))
				}
				checkHookError(t, item, "HookPermanentError")
				h.checkNotDeleted(item)
				agree()
				setJob(t, item)
			default:
				waitHookError(t, item, "HookFailed")
				h.checkNotDeleted(item)
				agree()
			}
			waitGone(t, item)
			if n := h.count(item, "Delete"); n != 1 {
				t.Errorf("expected the deployer to be called once, but it was called %d times", n)
			}
		})
	}
}

// checkNotDeleted checks that the plugin tracer was not called for the deletion of an item.
func (h *traced) checkNotDeleted(item *v1alpha1.DeployItem) {
	h.t.Helper()
	if n := h.count(item, "Delete"); n != 0 {
		h.t.Errorf("the deployer was called for item %s although its hook has failed", item.Name)
	}
}

// breakContract: an answer that is none of the API fails the job, and the deployer is not called.
func breakContract(t *testing.T, h *httpHooked) {
	t.Helper()
	child := func(name string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "n"}}
	}
	object := func(change func(*v1alpha1.DeployItem)) hookAnswer {
		return func(_ context.Context, w http.ResponseWriter, r *hookRequest) {
			change(r.Object)
			respondWith(w, r.Object, nil)
		}
	}
	children := func(children map[string]map[string]any) hookAnswer {
		return func(_ context.Context, w http.ResponseWriter, _ *hookRequest) { respondWith(w, nil, children) }
	}
	for name, tc := range map[string]struct {
		answer hookAnswer
		reason string // of the row
	}{
		"huge":          {answer: respondHuge, reason: "an answer is bounded"},
		"wrong-json":    {answer: respond(http.StatusOK, `{"object":`), reason: "half a document is none"},
		"no-json":       {answer: respond(http.StatusOK, `OK`), reason: "success with a text may be a proxy's"},
		"other-name":    {answer: object(func(i *v1alpha1.DeployItem) { i.Name = "other" }), reason: "another item's status is not this item's"},
		"other-uid":     {answer: object(func(i *v1alpha1.DeployItem) { i.UID = "other" }), reason: "the item of that name may be a later one"},
		"renamed-child": {answer: children(map[string]map[string]any{"configmap": child("other")}), reason: "the old object would be left behind"},
		"missing-child": {answer: children(map[string]map[string]any{"secret": child("c")}), reason: "a hook cannot take objects away"},
		"elsewhere": {reason: "a request must not be led to where nobody has registered", answer: func(_ context.Context, w http.ResponseWriter, _ *hookRequest) {
			w.Header().Set("Location", "http://127.0.0.3:1/")
			w.WriteHeader(http.StatusTemporaryRedirect)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := h.with(t)
			item := h.newItem("breaks-"+name, map[string]any{"children": map[string]any{"first": child("c")}})
			h.server.answer(item.Name, tc.answer)
			item = waitPhase(t, start(t, item), v1alpha1.DeployItemPhaseFailed)
			checkHookError(t, item, "HookContractViolation")
			if n := h.count(item, "Reconcile"); n != 0 {
				t.Errorf("%s: the deployer was called", tc.reason)
			}
		})
	}
}

// respondHuge answers with a document that would be right if it were shorter.
func respondHuge(_ context.Context, w http.ResponseWriter, r *hookRequest) {
	document, err := json.Marshal(map[string]any{"object": r.Object})
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	blanks := []byte(strings.Repeat(" ", 1<<20))
	for range answerTooLarge / len(blanks) {
		if _, err := w.Write(blanks); err != nil {
			return // the host has read enough
		}
	}
	_, _ = fmt.Fprintf(w, "%s", document)
}
