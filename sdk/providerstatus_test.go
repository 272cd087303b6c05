package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func requestWithStatus(status string) *Request {
	req := requestWithConfig("")
	if status != "" {
		req.DeployItem.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(status)}
	}
	return req
}

func TestDecodeProviderStatus(t *testing.T) {
	t.Parallel()
	const unknown = ReasonProviderStatusUnknown
	for name, tc := range map[string]struct {
		status     string
		found      bool
		wantReason string // of an *Error
	}{
		"None": {"", false, ""}, // the first call of a job
		// Fields of a newer version are ignored.
		"NewField":     {`{"apiVersion":"a/v2","kind":"B","note":"a","new":1}`, true, ""},
		"OlderVersion": {`{"apiVersion":"a/v1","kind":"B","note":"a"}`, true, ""},
		// It would be cut down.
		// Rule (plugin-authors.md#provider-status): A provider status of a newer version ends the job before anything
		// is done.
		"NewerVersion": {`{"apiVersion":"a/v3","kind":"B","note":"a"}`, false, unknown},
		"OtherGroup":   {`{"apiVersion":"b/v2","kind":"B","note":"a"}`, false, unknown},
		"OtherKind":    {`{"apiVersion":"a/v2","kind":"C","note":"a"}`, false, unknown},
		// What cannot be read must not pass as missing.
		"Invalid": {`{"apiVersion":"a/v2","kind":"B","note":1}`, false, ReasonError},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got testStatus
			found, err := requestWithStatus(tc.status).DecodeProviderStatus(&got, "B", "a/v2", "a/v1")
			if found != tc.found || (got.Note == "a") != tc.found || (err != nil) != (tc.wantReason != "") {
				t.Errorf("found %t, %v, error %v", found, got, err)
			}
			var e *Error
			if tc.wantReason == unknown && (!errors.As(err, &e) || e.Reason != unknown ||
				!slices.Contains(e.Codes, v1alpha1.ErrorNoRetry) || !strings.Contains(err.Error(), "a/v2 or a/v1")) {
				t.Errorf("expected the reason %s and the known versions, but found %v", unknown, err)
			}
		})
	}
}

// inventory is a provider status with all that the ones of deployers have.
type inventory struct {
	metav1.TypeMeta  `json:",inline"`
	ManagedResources []managedresource.ManagedResourceStatus `json:"managedResources,omitempty"`
	Release          *managedresource.TypedObjectReference   `json:"release,omitempty"`
	ByName           map[string]testStatus                   `json:"byName,omitempty"`
	Since            *metav1.Time                            `json:"since,omitempty"`
	Codes            []string                                `json:"codes,omitempty"`
	Revision         int
}

// Rule (plugin-authors.md#provider-status): Fields of a provider status unknown to a deployer survive as long as their
// parts.
func TestUnknownFieldsOfAProviderStatusSurvive(t *testing.T) {
	t.Parallel()
	const meta = `"apiVersion":"a/v1","kind":"B"`
	const parts = `,"release":{"apiVersion":"","kind":"","name":"r","digest":"x"},"byName":{"k":{"note":"n","new":{}}}`
	entry := func(name, more string) string {
		return `{"resource":{"apiVersion":"v1","kind":"ConfigMap","name":"` + name + `"` + more
	}
	for name, tc := range map[string]struct {
		reason, before string
		change         func(*inventory)
		want           string
	}{
		"AtTheTop": {
			reason: "a newer plugin looks for them",
			before: `{` + meta + `,"retired":[{"name":"a"}],"big":12345678901234567890}`,
			want:   `{` + meta + `,"Revision":0,"retired":[{"name":"a"}],"big":12345678901234567890}`,
		},
		"Below": {
			reason: "parts have fields, too",
			before: `{` + meta + parts + `}`,
			want:   `{` + meta + `,"Revision":0` + parts + `}`,
		},
		"OfEntries": {
			reason: "an entry is known by its object, whatever its place is and what else is new in it",
			before: `{` + meta + `,"managedResources":[` +
				entry("a", `,"new":1},"newToo":2}`) + `,` + entry("b", `},"newToo":3}`) + `]}`,
			change: func(i *inventory) {
				slices.Reverse(i.ManagedResources)
				i.ManagedResources[1].Resource.UID = "u"
			},
			want: `{` + meta + `,"Revision":0,"managedResources":[` + entry("b", `},"newToo":3}`) + `,` +
				entry("a", `,"uid":"u","new":1},"newToo":2}`) + `]}`,
		},
		"OfWhatIsGone": {
			reason: "they were about that",
			before: `{` + meta + `,"managedResources":[` + entry("a", `},"new":2}`) + `],"release":{"name":"r","new":1}}`,
			change: func(i *inventory) { i.ManagedResources, i.Release = nil, nil },
			want:   `{` + meta + `,"Revision":0}`,
		},
		"Emptied": {
			reason: "a known field that is gone does not come back, however it was written",
			before: `{` + meta + `,"revision":7,"codes":["a"],"since":"2026-01-01T00:00:00Z","new":1}`,
			change: func(i *inventory) { i.Revision, i.Codes, i.Since = 0, nil, nil },
			want:   `{` + meta + `,"Revision":0,"new":1}`,
		},
		"OtherVersion": {
			reason: "they may mean something else there", before: `{` + meta + `,"new":1}`,
			change: func(i *inventory) { i.APIVersion = "a/v2" },
			want:   `{"apiVersion":"a/v2","kind":"B","Revision":0}`,
		},
	} {
		req, status := requestWithStatus(tc.before), &inventory{}
		if _, err := req.DecodeProviderStatus(status, "B", "a/v2", "a/v1"); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if tc.change != nil {
			tc.change(status)
		}
		result := resultToWire("Reconcile", req, &Response{ProviderStatus: status}, nil)
		if diff := cmp.Diff(jsonOf(t, []byte(tc.want)), jsonOf(t, result.GetProviderStatus())); diff != "" {
			t.Errorf("%s: %s (-want +got):\n%s", name, tc.reason, diff)
		}
	}
}

// jsonOf reads a document without a loss of digits.
func jsonOf(t *testing.T, text []byte) any {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var value any
	if err := decoder.Decode(&value); err != nil {
		t.Fatal(err)
	}
	return value
}
