package httphook

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.opentelemetry.io/otel/trace"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

// Rule (hooks.md#requests): A request has form factor, phase, the item with its status, and the children, in each
// phase.
func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	for phase, call := range phases {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			var got []byte
			var method, path string
			var header http.Header
			u := serve(t, func(w http.ResponseWriter, r *http.Request) {
				method, path, header = r.Method, r.URL.RequestURI(), r.Header
				got, _ = io.ReadAll(r.Body)
				w.WriteHeader(http.StatusNoContent)
			})
			u.Path, u.RawQuery = "/v1/hook", "a=b"
			if err := call(t, newHook(Options{URL: u, Version: "1.2.3"})); err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", string(phase)+".golden.json")
			if *update {
				if err := os.WriteFile(golden, got, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), string(got)); diff != "" {
				t.Errorf("body of the request (-want +got):\n%s", diff)
			}
			if method != http.MethodPost || path != "/v1/hook?a=b" {
				t.Errorf("expected POST /v1/hook?a=b, but found %s %s", method, path)
			}
			wantHeader := http.Header{
				"Content-Type": {"application/json; charset=UTF-8"}, "Accept": {"application/json"},
				"User-Agent":      {"pergola-host/1.2.3"},
				"Accept-Encoding": {"gzip"},
			}
			header.Del("Content-Length")
			if diff := cmp.Diff(wantHeader, header); diff != "" {
				t.Errorf("header of the request (-want +got):\n%s", diff)
			}
		})
	}
}

// Rule (hooks.md#requests): The form factor is the plugin's name, unless the registration says otherwise.
func TestFormFactor(t *testing.T) {
	t.Parallel()
	var got request
	u := serve(t, func(_ http.ResponseWriter, r *http.Request) {
		if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
			t.Error(err)
		}
	})
	for _, tc := range []struct{ reason, option, want string }{
		{"the name of the plugin is the default", "", "manifest"},
		{"a server written for another host wants its names", "deployment", "deployment"},
	} {
		err := newHook(Options{URL: u, FormFactor: tc.option}).Finalize(t.Context(), "manifest", item())
		if err != nil || got.FormFactor.Name != tc.want {
			t.Errorf("%s: expected %q, but found %q (%v)", tc.reason, tc.want, got.FormFactor.Name, err)
		}
	}
}

// TestTraceContext: a hook can continue the trace of a job that has one.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	var got string
	h := newHook(Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusNoContent)
	})})
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	const want = "00-01000000000000000000000000000000-0200000000000000-01"
	if err := h.Finalize(ctx, "manifest", item()); err != nil || got != want {
		t.Errorf("expected traceparent %s, but found %q (%v)", want, got, err)
	}
}

func TestKeysOfChildren(t *testing.T) {
	t.Parallel()
	object := func(apiVersion, kind, namespace, name string) string {
		out, err := json.Marshal(map[string]any{"apiVersion": apiVersion, "kind": kind,
			"metadata": map[string]string{"namespace": namespace, "name": name}})
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	for name, tc := range map[string]struct {
		reason  string
		objects []string
		want    []string
		none    bool // the objects are none that a hook can be asked about
	}{
		"None":   {reason: "a deployer may have no objects"},
		"Unique": {"as Scoby has it", []string{deployment, service}, []string{"deployment", "service"}, false},
		"Several": {"the kind alone does not tell them apart",
			[]string{object("v1", "ConfigMap", "a", "x"), object("v1", "ConfigMap", "b", "x"), service},
			[]string{"configmap.a.x", "configmap.b.x", "service"}, false},
		"WithoutNamespace": {
			reason: "an empty namespace keeps its place",
			objects: []string{object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "x"),
				object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "y.z")},
			want: []string{"clusterrole..x", "clusterrole..y.z"},
		},
		"OtherGroup": {"two kinds of a name are told apart by the names of the children",
			[]string{service, object("serving.knative.dev/v1", "Service", "team-a", "web")},
			[]string{"service.team-a.web/0", "service.team-a.web/1"}, false},
		"WithoutName": {"objects whose name the API server makes have none yet",
			[]string{object("batch/v1", "Job", "a", ""), object("batch/v1", "Job", "a", "")}, []string{"job.a./0", "job.a./1"},
			false},
		"OddKind": {"a kind that is none must not hide another object",
			[]string{object("v1", "a.b.c", "", ""), object("v1", "A", "b", "c"), object("v1", "A", "b", "d")},
			[]string{"a.b.c/0", "a.b.c/1", "a.b.d"}, false},
		"NoJSON":    {reason: "cut off", objects: []string{`{"kind":`}, none: true},
		"NoVersion": {reason: "nobody knows what it is", objects: []string{`{"kind":"Secret"}`}, none: true},
		"KeyAsAKind": {"made to have the key of another",
			[]string{object("v1", "x", "", ""), object("v1", "x", "", ""), object("v1", "x../0", "", "")}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			children, err := identify(numbered(tc.objects...))
			if tc.none != (err != nil) || tc.none && !errors.Is(err, ErrChildren) {
				t.Fatalf("%s: found %v, %v", tc.reason, children, err)
			}
			var got []string
			for _, c := range children {
				got = append(got, c.key)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// numbered makes children named 0, 1 and so on.
func numbered(objects ...string) []sdk.Child {
	var out []sdk.Child
	for i, object := range objects {
		out = append(out, sdk.Child{Name: string(rune('0' + i)), Object: json.RawMessage(object)})
	}
	return out
}

func TestRequestLimit(t *testing.T) {
	t.Parallel()
	h := newHook(Options{URL: serve(t, func(http.ResponseWriter, *http.Request) {
		t.Error("the hook was asked")
	})})
	huge := item()
	huge.Spec.Config.Raw = append(append([]byte(`{"a":"`), bytes.Repeat([]byte{'a'}, 64<<20)...), `"}`...)
	failed := hookError(t, h.Finalize(t.Context(), "", huge))
	if failed.Reason != ReasonRequestTooLarge || !failed.Permanent || failed.Phase != v1alpha1.HookFinalize {
		t.Errorf("expected a permanent %s, but found %#v", ReasonRequestTooLarge, failed)
	}
}
