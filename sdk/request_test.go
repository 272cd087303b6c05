package sdk

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

type testStatus struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Note       string `json:"note,omitempty"`
}

func TestProviderStatusNeedsAPIVersionAndKind(t *testing.T) {
	t.Parallel()
	for reason, tc := range map[string]struct {
		status any
		ok     bool
	}{
		"both are there":                 {testStatus{APIVersion: "a/v1", Kind: "B"}, true},
		"it has no kind":                 {testStatus{APIVersion: "a/v1"}, false},
		"it has no version":              {testStatus{Kind: "B"}, false},
		"a provider status is an object": {"text", false},
		"it has to be marshalled":        {make(chan int), false},
		"null is no object":              {(*testStatus)(nil), false},
	} {
		if err := requestWithConfig("").SaveProviderStatus(t.Context(), tc.status); (err == nil) != tc.ok {
			t.Errorf("%s: SaveProviderStatus returned %v", reason, err)
		}
		result := resultToWire("Reconcile", &Request{}, &Response{ProviderStatus: tc.status}, nil)
		if tc.ok && result.GetSucceeded() == nil || !tc.ok && wantInternalProblem(t, result) == "" {
			t.Errorf("%s: the response became %v", reason, result)
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
	_, targetErr := req.ResolveTarget(t.Context(), "other")
	_, secretErr := req.ResolveRegistryCredentials(t.Context(), "shop", "pull")
	if req.Stopping() != nil || targetErr == nil || secretErr == nil {
		t.Errorf("it can be stopped, or resolves a Target (%v) or credentials (%v)", targetErr, secretErr)
	}
}

// That nobody changed the children is not that somebody removed them all.
func TestChildrenFromWire(t *testing.T) {
	t.Parallel()
	one := []*deployerv1.Child{{Name: "a", Object: []byte(`{}`)}}
	for _, tc := range []struct {
		in   *deployerv1.Children
		want []Child
	}{
		{nil, nil}, {&deployerv1.Children{}, []Child{}},
		{&deployerv1.Children{Children: one}, []Child{{Name: "a", Object: []byte(`{}`)}}},
	} {
		if diff := cmp.Diff(tc.want, childrenFromWire(tc.in)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.in, diff)
		}
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
	want := []map[string]any{{
		"level": "WARN", "msg": "something odd", "count": 3.0,
		"deployitem": "default/item", "jobID": "job", "operation": "Reconcile",
	}}
	if diff := cmp.Diff(want, records(t, &out)); diff != "" {
		t.Errorf("record (-want +got):\n%s", diff)
	}
}
