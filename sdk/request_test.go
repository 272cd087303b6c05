package sdk

import (
	"bytes"
	"encoding/json"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

type testStatus struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Note       string `json:"note,omitempty"`
}

func TestProviderStatusNeedsAPIVersionAndKind(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		status any
		wantOK bool
	}{
		"Complete":     {reason: "both are there", status: testStatus{APIVersion: "a/v1", Kind: "B"}, wantOK: true},
		"NoKind":       {reason: "the API server would refuse it", status: testStatus{APIVersion: "a/v1"}},
		"NoAPIVersion": {reason: "the API server would refuse it", status: testStatus{Kind: "B"}},
		"NoObject":     {reason: "a provider status is an object", status: "text"},
		"NoJSON":       {reason: "it has to be marshalled", status: make(chan int)},
		"Nil":          {reason: "null is no object", status: (*testStatus)(nil)},
	} {
		if err := requestWithConfig("").SaveProviderStatus(t.Context(), tc.status); (err == nil) != tc.wantOK {
			t.Errorf("%s: %s: SaveProviderStatus returned %v", name, tc.reason, err)
		}
		result := resultToWire("Reconcile", &Request{}, &Response{ProviderStatus: tc.status}, nil)
		if tc.wantOK {
			if result.GetSucceeded() == nil {
				t.Errorf("%s: %s: the response became %v", name, tc.reason, result)
			}
			continue
		}
		want := []string{string(v1alpha1.ErrorInternalProblem)}
		if diff := cmp.Diff(want, result.GetFailed().GetErrors()[0].GetCodes()); diff != "" {
			t.Errorf("%s: %s: codes (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

// A request that did not come from a host can be used in a deployer's own unit tests.
func TestRequestWithoutHost(t *testing.T) {
	t.Parallel()
	req := requestWithConfig("")
	req.Progress("step", "message")
	req.Event("Reason", "message")
	req.Warning("Reason", "message")
	if req.Stopping() != nil {
		t.Error("a request without a host can be stopped")
	}
	if _, err := req.ResolveTarget(t.Context(), "other"); err == nil {
		t.Error("a request without a host resolves a Target")
	}
	if _, err := req.ResolveRegistryCredentials(t.Context(), "shop", "pull"); err == nil {
		t.Error("a request without a host resolves credentials")
	}
}

// That nobody changed the children is not that somebody removed them all.
func TestChildrenFromWire(t *testing.T) {
	t.Parallel()
	if got := childrenFromWire(nil); got != nil {
		t.Errorf("nobody changed them, but found %v", got)
	}
	if got := childrenFromWire(&deployerv1.Children{}); got == nil || len(got) > 0 {
		t.Errorf("somebody removed all, but found %v", got)
	}
	in := &deployerv1.Children{Children: []*deployerv1.Child{{Name: "a", Object: []byte(`{}`)}}}
	if diff := cmp.Diff([]Child{{Name: "a", Object: []byte(`{}`)}}, childrenFromWire(in)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// The host adds the plugin to a record; the item, the job and the operation are there already.
func TestLogOfARequest(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	s := newServer(&plugin{}, slog.New(slog.NewJSONHandler(&out, nil)))
	item := []byte(`{"metadata":{"namespace":"default","name":"item"}}`)
	req, err := s.request("Reconcile", &deployerv1.Start{DeployItem: item, JobId: "job"})
	if err != nil {
		t.Fatal(err)
	}
	req.Log.Warn("something odd", "count", 3)
	var got map[string]any
	if err := json.Unmarshal(out.Bytes(), &got); err != nil {
		t.Fatal(err)
	}
	delete(got, "time")
	want := map[string]any{
		"level": "WARN", "msg": "something odd", "count": 3.0,
		"deployitem": "default/item", "jobID": "job", "operation": "Reconcile",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
