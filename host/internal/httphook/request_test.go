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

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestRequestOnTheWire(t *testing.T) {
	t.Parallel()
	for phase, call := range phases {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			var got []byte
			var method, path string
			var header http.Header
			u := serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				method, path, header = r.Method, r.URL.RequestURI(), r.Header
				got, _ = io.ReadAll(r.Body)
				w.WriteHeader(http.StatusNoContent)
			}))
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

func TestFormFactor(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct{ reason, option, call, want string }{
		{reason: "the name of the plugin is the default", call: "manifest", want: "manifest"},
		{
			reason: "a server written for another host wants its names", option: "deployment", call: "manifest",
			want: "deployment",
		},
	} {
		var got request
		u := serve(t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			if err := json.NewDecoder(r.Body).Decode(&got); err != nil {
				t.Error(err)
			}
		}))
		err := newHook(Options{URL: u, FormFactor: tc.option}).Finalize(t.Context(), tc.call, item())
		if err != nil || got.FormFactor.Name != tc.want {
			t.Errorf("%s: expected %q, but found %q (%v)", tc.reason, tc.want, got.FormFactor.Name, err)
		}
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
		"None": {reason: "a deployer may have no objects"},
		"Unique": {
			reason: "as Scoby has it", objects: []string{deployment, service}, want: []string{"deployment", "service"},
		},
		"Several": {
			reason:  "the kind alone does not tell them apart",
			objects: []string{object("v1", "ConfigMap", "a", "x"), object("v1", "ConfigMap", "b", "x"), service},
			want:    []string{"configmap.a.x", "configmap.b.x", "service"},
		},
		"WithoutNamespace": {
			reason: "an empty namespace keeps its place",
			objects: []string{object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "x"),
				object("rbac.authorization.k8s.io/v1", "ClusterRole", "", "y.z")},
			want: []string{"clusterrole..x", "clusterrole..y.z"},
		},
		"OtherGroup": {
			reason:  "two kinds of a name are told apart by the names of the children",
			objects: []string{service, object("serving.knative.dev/v1", "Service", "team-a", "web")},
			want:    []string{"service.team-a.web/0", "service.team-a.web/1"},
		},
		"WithoutName": {
			reason:  "objects whose name the API server makes have none yet",
			objects: []string{object("batch/v1", "Job", "a", ""), object("batch/v1", "Job", "a", "")},
			want:    []string{"job.a./0", "job.a./1"},
		},
		"OddKind": {
			reason:  "a kind that is none must not hide another object",
			objects: []string{object("v1", "a.b.c", "", ""), object("v1", "A", "b", "c"), object("v1", "A", "b", "d")},
			want:    []string{"a.b.c/0", "a.b.c/1", "a.b.d"},
		},
		"NoJSON":    {reason: "cut off", objects: []string{`{"kind":`}, none: true},
		"NoVersion": {reason: "nobody knows what it is", objects: []string{`{"kind":"Secret"}`}, none: true},
		"KeyAsAKind": {
			reason: "made to have the key of another", none: true,
			objects: []string{object("v1", "x", "", ""), object("v1", "x", "", ""), object("v1", "x../0", "", "")},
		},
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
	h := newHook(Options{URL: serve(t, http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("the hook was asked")
	}))})
	huge := item()
	huge.Spec.Config.Raw = append(append([]byte(`{"a":"`), bytes.Repeat([]byte{'a'}, 64<<20)...), `"}`...)
	failed := hookError(t, h.Finalize(t.Context(), "", huge))
	if failed.Reason != ReasonRequestTooLarge || !failed.Permanent || failed.Phase != v1alpha1.HookFinalize {
		t.Errorf("expected a permanent %s, but found %#v", ReasonRequestTooLarge, failed)
	}
}
