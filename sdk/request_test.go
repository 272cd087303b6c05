package sdk

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func requestWithConfig(config string) *Request {
	item := &v1alpha1.DeployItem{}
	if config != "" {
		item.Spec.Config = &runtime.RawExtension{Raw: []byte(config)}
	}
	return &Request{DeployItem: item}
}

func TestDecodeConfig(t *testing.T) {
	t.Parallel()
	type port struct {
		Number int64 `json:"number"`
	}
	type config struct {
		Name  string `json:"name"`
		Ports []port `json:"ports"`
	}
	tests := map[string]struct {
		reason string
		config string
		want   config
		// wantReason of the *Error; empty for no error.
		wantReason string
		// wantNamed are parts of the message.
		wantNamed []string
	}{
		"Valid": {
			reason: "integers beyond 2^53 keep their digits",
			config: `{"name":"a","ports":[{"number":9007199254740993}]}`,
			want:   config{Name: "a", Ports: []port{{Number: 9007199254740993}}},
		},
		"Missing": {
			reason:     "a deployer cannot do anything without a configuration",
			wantReason: ReasonConfigMissing,
			wantNamed:  []string{"spec.config"},
		},
		"UnknownFields": {
			reason:     "all are reported at once, each with its path",
			config:     `{"name":"a","nane":"b","ports":[{"number":1},{"nunber":2}]}`,
			wantReason: ReasonConfigInvalid,
			wantNamed:  []string{"spec.config", `"nane"`, `"ports[1].nunber"`},
		},
		"OtherCase": {
			reason:     "names of fields have one spelling",
			config:     `{"Name":"a"}`,
			wantReason: ReasonConfigInvalid,
			wantNamed:  []string{`"Name"`},
		},
		"DuplicateField": {
			reason:     "one of the two values would be lost silently",
			config:     `{"ports":[{"number":1,"number":2}]}`,
			wantReason: ReasonConfigInvalid,
			wantNamed:  []string{"duplicate", `"ports[0].number"`},
		},
		"WrongType": {
			reason:     "the path leads to the value",
			config:     `{"ports":[{"number":"one"}]}`,
			wantReason: ReasonConfigInvalid,
			wantNamed:  []string{"spec.config: ports[0].number: expected a whole number, but found a text"},
		},
		"NoJSON": {
			reason:     "what cannot be read at all is a user's mistake, too",
			config:     `{"name":`,
			wantReason: ReasonConfigInvalid,
			wantNamed:  []string{"spec.config"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got config
			err := requestWithConfig(tc.config).DecodeConfig(&got)
			if tc.wantReason == "" {
				if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
					t.Errorf("%s: error %v, config (-want +got):\n%s", tc.reason, err, diff)
				}
				return
			}
			var found *Error
			if !errors.As(err, &found) || found.Reason != tc.wantReason {
				t.Fatalf("%s: expected reason %s, but found %v", tc.reason, tc.wantReason, err)
			}
			if diff := cmp.Diff([]v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Codes(err)); diff != "" {
				t.Errorf("%s: codes (-want +got):\n%s", tc.reason, diff)
			}
			for _, part := range tc.wantNamed {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("%s: expected the message to name %s, but found: %v", tc.reason, part, err)
				}
			}
		})
	}
}

func TestDecodeConfigLeniently(t *testing.T) {
	t.Parallel()
	type config struct {
		Name string `json:"name"`
	}
	tests := map[string]struct {
		reason, config string
		want           config
		wantUnknown    []string
		wantErr        bool
	}{
		"Known":     {reason: "nothing to tell", config: `{"name":"a"}`, want: config{Name: "a"}},
		"Unknown":   {reason: "what is known counts, the rest is told", config: `{"name":"a","b":1,"c":2}`, want: config{Name: "a"}, wantUnknown: []string{`unknown field "b"`, `unknown field "c"`}},
		"WrongType": {reason: "the value is lost, which nobody wants to pass over", config: `{"name":1}`, wantErr: true},
		"Missing":   {reason: "there is nothing to carry out", wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got config
			unknown, err := requestWithConfig(tc.config).DecodeConfigLeniently(&got)
			if (err != nil) != tc.wantErr {
				t.Fatalf("%s: error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: config (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.wantUnknown, unknown); diff != "" {
				t.Errorf("%s: unknown fields (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestConfigGroupVersionKind(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, config        string
		wantVersion, wantKind string
	}{
		"Both":    {reason: "a deployer of several versions chooses by it", config: `{"apiVersion":"a/v1","kind":"B","x":1}`, wantVersion: "a/v1", wantKind: "B"},
		"Missing": {reason: "no configuration has neither"},
		"Neither": {reason: "both may be missing", config: `{"x":1}`},
		"NoJSON":  {reason: "DecodeConfig is where a broken configuration is reported", config: `{`},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			apiVersion, kind := requestWithConfig(tc.config).ConfigGroupVersionKind()
			if apiVersion != tc.wantVersion || kind != tc.wantKind {
				t.Errorf("%s: expected %q, %q, but found %q, %q", tc.reason, tc.wantVersion, tc.wantKind, apiVersion, kind)
			}
		})
	}
}

type testStatus struct {
	APIVersion string `json:"apiVersion,omitempty"`
	Kind       string `json:"kind,omitempty"`
	Note       string `json:"note,omitempty"`
}

func TestDecodeProviderStatus(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason, status string
		want           testStatus
		wantFound      bool
		wantErr        bool
	}{
		"None":    {reason: "the first call of a job finds nothing"},
		"There":   {reason: "what was saved comes back", status: `{"note":"a"}`, want: testStatus{Note: "a"}, wantFound: true},
		"Newer":   {reason: "fields of a newer version are passed over", status: `{"note":"a","new":1}`, want: testStatus{Note: "a"}, wantFound: true},
		"Invalid": {reason: "what cannot be read must not pass as missing", status: `{"note":1}`, wantErr: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			req := requestWithConfig("")
			if tc.status != "" {
				req.DeployItem.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(tc.status)}
			}
			var got testStatus
			found, err := req.DecodeProviderStatus(&got)
			if found != tc.wantFound || (err != nil) != tc.wantErr {
				t.Errorf("%s: found %v, error %v", tc.reason, found, err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: status (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func TestProviderStatusNeedsAPIVersionAndKind(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
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
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := requestWithConfig("").SaveProviderStatus(t.Context(), tc.status)
			if (err == nil) != tc.wantOK {
				t.Errorf("%s: SaveProviderStatus returned %v", tc.reason, err)
			}
			result := resultToWire("Reconcile", &Response{ProviderStatus: tc.status}, nil)
			if (result.GetFailed() == nil) != tc.wantOK {
				t.Errorf("%s: the response became %v", tc.reason, result)
			}
			if !tc.wantOK && result.GetFailed().GetErrors()[0].GetCodes()[0] != string(v1alpha1.ErrorInternalProblem) {
				t.Errorf("%s: expected %s, but found %v", tc.reason, v1alpha1.ErrorInternalProblem, result)
			}
		})
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
}

func TestTargetKubeconfig(t *testing.T) {
	t.Parallel()
	const secret = "top-secret"
	tests := map[string]struct {
		reason string
		target *Target
		want   string
	}{
		"Good":      {reason: "the kubeconfig is a field of the content", target: &Target{Content: []byte(`{"kubeconfig":"k"}`)}, want: "k"},
		"None":      {reason: "an item without target has none"},
		"OtherType": {reason: "not every target is a cluster", target: &Target{Name: "t", Content: []byte(`{"token":"` + secret + `"}`)}},
		"NoJSON":    {reason: "content may be anything", target: &Target{Name: "t", Content: []byte(secret)}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := tc.target.Kubeconfig()
			if string(got) != tc.want || (err == nil) != (tc.want != "") {
				t.Fatalf("%s: found %q, error %v", tc.reason, got, err)
			}
			if err == nil {
				return
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("%s: the error shows the content: %v", tc.reason, err)
			}
			if diff := cmp.Diff([]v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Codes(err)); diff != "" {
				t.Errorf("%s: codes (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// Whoever logs a request for debugging must not publish what is in it.
func TestTargetIsNotPrinted(t *testing.T) {
	t.Parallel()
	const secret = "t0ps3cret"
	given := &Target{Name: "prod", Type: "t", Labels: map[string]string{"a": "b"}, Content: []byte(secret)}
	encoded := base64.StdEncoding.EncodeToString(given.Content) // as JSON has bytes
	for name, value := range map[string]any{
		"pointer": given, "value": *given, "list": []any{*given}, "request": &Request{Target: given}, "content of the request": Request{Target: given},
	} {
		texts := []string{}
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
			texts = append(texts, fmt.Sprintf(verb, value))
		}
		if text, err := json.Marshal(value); err == nil {
			texts = append(texts, string(text))
		}
		var log bytes.Buffer
		slog.New(slog.NewTextHandler(&log, nil)).Info("careless", "value", value)
		slog.New(slog.NewJSONHandler(&log, nil)).Info("careless", "value", value)
		for _, text := range append(texts, log.String()) {
			if strings.Contains(text, secret) || strings.Contains(text, encoded) || strings.Contains(text, fmt.Sprintf("%x", secret)) || strings.Contains(text, "116 48 112") {
				t.Errorf("%s shows the secret: %s", name, text)
			}
		}
	}
	const want = `{Name:"prod" Type:"t" Labels:map["a":"b"] Content:(9 bytes)}`
	if got := fmt.Sprint(given); got != want {
		t.Errorf("expected %s, but found %s", want, got)
	}
}
