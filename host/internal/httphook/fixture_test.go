package httphook

import (
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// phases calls a hook in each of its phases.
var phases = map[v1alpha1.HookCapability]func(*testing.T, *Hook) error{
	v1alpha1.HookPreReconcile: func(t *testing.T, h *Hook) error {
		t.Helper()
		answer, err := h.PreReconcile(t.Context(), "manifest", item(), children())
		if (answer == nil) != (err != nil) {
			t.Errorf("expected either an answer or an error, but found %v and %v", answer, err)
		}
		return err
	},
	v1alpha1.HookFinalize: func(t *testing.T, h *Hook) error {
		t.Helper()
		return h.Finalize(t.Context(), "manifest", item())
	},
}

// item is a deploy item as the host has it after a read, without kind and apiVersion.
func item() *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{
		ObjectMeta: metav1.ObjectMeta{
			Name: "web", Namespace: "team-a", UID: "5f2a", Generation: 2, ResourceVersion: "77",
			Labels: map[string]string{"note": "a<b&c"},
		},
		Spec: v1alpha1.DeployItemSpec{
			Type:   "landscaper.gardener.cloud/kubernetes-manifest",
			Config: &runtime.RawExtension{Raw: []byte(`{"apiVersion":"example.org/v1","kind":"Config","big":9007199254740993}`)},
		},
		Status: v1alpha1.DeployItemStatus{
			Phase: v1alpha1.DeployItemPhaseProgressing, ObservedGeneration: 2, JobID: "job-1",
			Conditions: []v1alpha1.Condition{{
				Type: "Ready", Status: v1alpha1.ConditionUnknown, Reason: "Progressing", Message: "the job is under way",
				LastTransitionTime: v1alpha1.NewTime(time.Unix(1700000000, 0)),
				LastUpdateTime:     v1alpha1.NewTime(time.Unix(1700000000, 0)),
			}},
		},
	}
}

const (
	deployment = `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"namespace":"team-a","name":"web"},` +
		`"spec":{"replicas":9007199254740993,"ratio":1.0,"note":"<&>"}}`
	service = `{"apiVersion":"v1","kind":"Service","metadata":{"namespace":"team-a","name":"web"}}`
)

// children are a deployment and a service.
func children() []sdk.Child {
	return []sdk.Child{{Name: "0", Object: json.RawMessage(deployment)}, {Name: "1", Object: json.RawMessage(service)}}
}

// answering returns a handler with a fixed answer.
func answering(code int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(code)
		_, _ = io.WriteString(w, body)
	}
}

// serve starts a server with a handler and returns its URL.
func serve(t *testing.T, handler http.HandlerFunc) *url.URL {
	t.Helper()
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	return parse(t, server.URL)
}

func parse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

// newHook makes a hook of a registration named "labels", with a timeout that no test waits for unless it says another
// one.
func newHook(o Options) *Hook {
	o.Registration = "labels"
	o.Timeout, o.Metrics = cmp.Or(o.Timeout, maxTimeout), cmp.Or(o.Metrics, NewMetrics())
	return New(o)
}

// finalize asks a new hook before the deletion of the item.
func finalize(t *testing.T, o Options) error {
	t.Helper()
	return newHook(o).Finalize(t.Context(), "", item())
}

// hookAnswering makes a hook whose server has a fixed answer.
func hookAnswering(t *testing.T, code int, body string) *Hook {
	t.Helper()
	return newHook(Options{URL: serve(t, answering(code, body))})
}

// hookError returns the *Error that an error is.
func hookError(t *testing.T, err error) *Error {
	t.Helper()
	var failed *Error
	if !errors.As(err, &failed) {
		t.Fatalf("expected an error of the hook, but found %v", err)
	}
	return failed
}
