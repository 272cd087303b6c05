package ignore

import (
	"context"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

type fields = map[string]any

// read decodes JSON as objects of an API server are decoded.
func read(t *testing.T, document string) fields {
	t.Helper()
	var out fields
	if err := json.Unmarshal([]byte(document), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseRules(t *testing.T) {
	t.Parallel()
	rules, problems := ParseRules([]managedresource.IgnoreDifferences{
		{Kind: "Deployment", JSONPointers: []string{"/spec/replicas", "/metadata/annotations/a~1b~0c"}},
		{Kind: "Deployment", Name: "web", JSONPointers: []string{"/spec/paused"}},
	}, field.NewPath("ignoreDifferences"))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	want := []Pointer{{"spec", "replicas"}, {"metadata", "annotations", "a/b~c"}, {"spec", "paused"}}
	for _, c := range []struct {
		kind, name string
		want       []Pointer
	}{{"Deployment", "web", want}, {"Deployment", "other", want[:2]}, {"Job", "web", nil}} {
		if diff := cmp.Diff(c.want, rules.For(c.kind, c.name)); diff != "" {
			t.Errorf("%s %s: -want +got:\n%s", c.kind, c.name, diff)
		}
	}

	_, problems = ParseRules([]managedresource.IgnoreDifferences{
		{JSONPointers: []string{"spec/replicas", "", "/metadata", "/metadata/name", "/kind", "/a~2"}}, {Kind: "Job"},
	}, field.NewPath("ignoreDifferences"))
	var found []string
	for _, p := range problems {
		found = append(found, p.Field)
	}
	wrong := "ignoreDifferences[0].kind"
	for _, n := range strings.Split("012345", "") {
		wrong += " ignoreDifferences[0].jsonPointers[" + n + "]"
	}
	if diff := cmp.Diff(wrong+" ignoreDifferences[1].jsonPointers", strings.Join(found, " ")); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestLeave(t *testing.T) {
	t.Parallel()
	const live = `{"spec": {"replicas": 3, "list": [1, 2], "containers": [
		{"name": "sidecar", "image": "s:1"}, {"name": "main", "image": "m:2", "args": ["x"]}
	], "inner": {"theirs": true, "more": true}}}`
	for name, c := range map[string]struct {
		wanted, pointer, left, removed string
	}{
		"a field": {
			wanted: `{"spec": {"replicas": 1}}`, pointer: "/spec/replicas",
			left: `{"spec": {"replicas": 3}}`, removed: `{"spec": {}}`,
		},
		"a field that the manifest lacks": {
			wanted: `{"spec": {}}`, pointer: "/spec/inner/theirs",
			left: `{"spec": {"inner": {"theirs": true}}}`, removed: `{"spec": {}}`,
		},
		"a field that the object lacks": {
			wanted: `{"spec": {"paused": true}}`, pointer: "/spec/paused", left: `{"spec": {}}`, removed: `{"spec": {}}`,
		},
		"a field that neither has": {
			wanted: `{"spec": {}}`, pointer: "/spec/a/b", left: `{"spec": {}}`, removed: `{"spec": {}}`,
		},
		"a field of an element, by its name": {
			wanted: `{"spec": {"containers": [{"name": "main", "image": "m:1"}]}}`, pointer: "/spec/containers/0/image",
			left:    `{"spec": {"containers": [{"name": "main", "image": "m:2"}]}}`,
			removed: `{"spec": {"containers": [{"name": "main"}]}}`,
		},
		"a field of a new element": {
			wanted: `{"spec": {"containers": [{"name": "new", "image": "n:1"}]}}`, pointer: "/spec/containers/0/image",
			left:    `{"spec": {"containers": [{"name": "new", "image": "n:1"}]}}`,
			removed: `{"spec": {"containers": [{"name": "new"}]}}`,
		},
		"an element stands for the list": {
			wanted: `{"spec": {"list": [1]}}`, pointer: "/spec/list/0", left: `{"spec": {"list": [1, 2]}}`,
			removed: `{"spec": {}}`,
		},
		"an index that there is not": {
			wanted: `{"spec": {"containers": []}}`, pointer: "/spec/containers/7/image",
			left: `{"spec": {"containers": []}}`, removed: `{"spec": {"containers": []}}`,
		},
		"a field of a text": {
			wanted: `{"spec": "x"}`, pointer: "/spec/replicas", left: `{"spec": "x"}`, removed: `{"spec": "x"}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pointer, err := parse(c.pointer)
			if err != nil {
				t.Fatal(err)
			}
			out, existing := read(t, c.wanted), read(t, live)
			Leave(out, existing, pointer)
			if diff := cmp.Diff(read(t, c.left), out); diff != "" {
				t.Errorf("left: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(read(t, live), existing); diff != "" {
				t.Errorf("the object was changed: -want +got:\n%s", diff)
			}
			out = read(t, c.wanted)
			Remove(out, pointer)
			if diff := cmp.Diff(read(t, c.removed), out); diff != "" {
				t.Errorf("removed: -want +got:\n%s", diff)
			}
		})
	}
}

func TestBundles(t *testing.T) {
	t.Parallel()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	certificate := base64.StdEncoding.EncodeToString(block)
	const webhooks = `"apiVersion": "admissionregistration.k8s.io/v1", "kind": "MutatingWebhookConfiguration"`
	const definition = `"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"`
	const service = `"apiVersion": "apiregistration.k8s.io/v1", "kind": "APIService"`
	const of = `"service": {"namespace": "n", "name": "s"}`
	for name, c := range map[string]struct {
		wanted, live string
		want         []Pointer
	}{
		"webhooks, by their names": {
			wanted: `{` + webhooks + `, "webhooks": [
				{"name": "none", "clientConfig": {"service": {"namespace": "n", "name": "s", "port": 2}}},
				{"name": "moved", "clientConfig": {"service": {"namespace": "n", "name": "other"}}},
				{"name": "new", "clientConfig": {"url": "https://u"}}, {"name": "nonsense", "clientConfig": "x"}, "nonsense",
				{"name": "line", "clientConfig": {"url": "https://u", "caBundle": "Cg=="}},
				{"name": "empty", "clientConfig": {"url": "https://u", "caBundle": ""}},
				{"name": "given", "clientConfig": {"url": "https://u", "caBundle": "` + certificate + `"}}
			]}`,
			live: `{` + webhooks + `, "webhooks": [
				{"name": "given", "clientConfig": {"url": "https://u", "caBundle": "` + certificate + `"}},
				{"name": "empty", "clientConfig": {"url": "https://u", "caBundle": "` + certificate + `"}},
				{"name": "line", "clientConfig": {"url": "https://u", "caBundle": "` + certificate + `"}},
				{"name": "moved", "clientConfig": {` + of + `, "caBundle": "` + certificate + `"}},
				{"name": "none", "clientConfig": {` + of + `, "caBundle": "YQ=="}}
			]}`,
			want: []Pointer{
				{"webhooks", "0", "clientConfig", "caBundle"}, {"webhooks", "5", "clientConfig", "caBundle"},
				{"webhooks", "6", "clientConfig", "caBundle"},
			},
		},
		"a placeholder over another one": {
			wanted: `{` + definition + `, "spec": {"conversion": {"webhook": {"clientConfig": {` + of +
				`, "caBundle": "Cg=="}}}}}`,
			live: `{` + definition + `, "spec": {"conversion": {"webhook": {"clientConfig": {` + of +
				`, "caBundle": "YQ=="}}}}}`,
		},
		"a conversion": {
			wanted: `{` + definition + `, "spec": {"conversion": {"webhook": {"clientConfig": {` + of + `}}}}}`,
			live: `{` + definition + `, "spec": {"conversion": {"webhook": {"clientConfig": {` + of + `, "caBundle": "` +
				certificate + `"}}}}}`,
			want: []Pointer{{"spec", "conversion", "webhook", "clientConfig", "caBundle"}},
		},
		"no conversion any more": {
			wanted: `{` + definition + `, "spec": {}}`,
			live: `{` + definition + `, "spec": {"conversion": {"webhook": {"clientConfig": {` + of + `, "caBundle": "` +
				certificate + `"}}}}}`,
		},
		"an API service": {
			wanted: `{` + service + `, "spec": {` + of + `}}`,
			live:   `{` + service + `, "spec": {` + of + `, "caBundle": "` + certificate + `"}}`,
			want:   []Pointer{{"spec", "caBundle"}},
		},
		"an API service that is not verified": {
			wanted: `{` + service + `, "spec": {` + of + `, "insecureSkipTLSVerify": true}}`,
			live:   `{` + service + `, "spec": {` + of + `, "caBundle": "` + certificate + `"}}`,
		},
		"another kind": {
			wanted: `{"apiVersion": "v1", "kind": "APIService", "spec": {` + of + `}}`,
			live:   `{"apiVersion": "v1", "kind": "APIService", "spec": {` + of + `, "caBundle": "` + certificate + `"}}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(c.want, Bundles(read(t, c.wanted), read(t, c.live))); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAutoscalers(t *testing.T) {
	t.Parallel()
	scaler := func(apiVersion, kind, name string) unstructured.Unstructured {
		return unstructured.Unstructured{Object: fields{"spec": fields{
			"scaleTargetRef": fields{"apiVersion": apiVersion, "kind": kind, "name": name},
		}}}
	}
	going := scaler("apps/v1", "Deployment", "going")
	now := metav1.Now()
	going.SetDeletionTimestamp(&now)
	dropped := scaler("apps/v1", "Deployment", "unscaled")
	dropped.SetName("dropped")
	coming, elsewhere := scaler("apps/v1", "Deployment", "soon"), scaler("apps/v1", "Deployment", "b")
	for o, namespace := range map[*unstructured.Unstructured]string{&coming: "n", &elsewhere: "other"} {
		o.SetAPIVersion("autoscaling/v2")
		o.SetKind(Kind.Kind)
		o.SetNamespace(namespace)
	}
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{
		scaler("apps/v1", "Deployment", "web"), scaler("roses.example.org/v1", "Rose", "web"), going, dropped,
		{Object: fields{}},
	}}
	o := func(apiVersion, kind, name string, replicas any) fields {
		out := fields{
			"apiVersion": apiVersion, "kind": kind, "metadata": fields{"namespace": "n", "name": name}, "spec": fields{},
		}
		if replicas != nil {
			out["spec"] = fields{"replicas": replicas}
		}
		return out
	}
	deployment := func(name string, replicas ...int64) fields {
		if len(replicas) == 0 {
			return o("apps/v1", "Deployment", name, nil)
		}
		return o("apps/v1", "Deployment", name, replicas[0])
	}
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "")
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	for name, c := range map[string]struct {
		wanted, live fields
		err          error
		want         bool
		asks         int
		fails        bool
	}{
		"scaled": {deployment("web", 1), deployment("web", 3), nil, true, 1, false},
		"another kind": {
			o("roses.example.org/v2", "Rose", "web", int64(1)), o("roses.example.org/v2", "Rose", "web", int64(3)), nil,
			true, 1, false,
		},
		"not named": {deployment("web"), deployment("web", 3), nil, true, 1, false},
		"another group": {
			o("v1", "Deployment", "web", int64(1)), o("v1", "Deployment", "web", int64(3)), nil, false, 1, false,
		},
		"another name":  {deployment("b", 1), deployment("b", 3), nil, false, 1, false},
		"going":         {deployment("going", 1), deployment("going", 3), nil, false, 1, false},
		"dropped":       {deployment("unscaled", 1), deployment("unscaled", 3), nil, false, 1, false},
		"about to come": {deployment("soon"), deployment("soon", 3), nil, true, 1, false},
		"the same":      {deployment("web", 3), deployment("web", 3), nil, false, 0, false},
		"the default":   {deployment("web"), deployment("web", 1), nil, false, 0, false},
		"none wanted":   {deployment("web", 0), deployment("web", 3), nil, false, 0, false},
		"none found":    {deployment("web", 1), deployment("web", 0), nil, false, 0, false},
		"no namespace": {deployment("web", 1), fields{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": fields{"name": "web"},
			"spec": fields{"replicas": int64(3)},
		}, nil, false, 0, false},
		"no replicas":   {o("v1", "ConfigMap", "web", nil), o("v1", "ConfigMap", "web", nil), nil, false, 0, false},
		"not served":    {deployment("web", 1), deployment("web", 3), notFound, false, 1, false},
		"no permission": {deployment("web", 1), deployment("web", 3), forbidden, false, 1, false},
		"an error":      {deployment("web", 1), deployment("web", 3), errors.New("x"), false, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			a := NewAutoscalers(func(_ context.Context, namespace string) (*unstructured.UnstructuredList, error) {
				if asked++; namespace != "n" {
					t.Errorf("expected the namespace of the object, but found %s", namespace)
				}
				return list, c.err
			}, Changes{
				Wanted:  []*unstructured.Unstructured{&coming, &elsewhere},
				Dropped: func(namespace, name string) bool { return namespace == "n" && name == "dropped" },
			})
			for range 2 {
				found, err := a.Scale(t.Context(), runtime.DeepCopyJSON(c.wanted), c.live)
				if found != c.want || (err != nil) != c.fails {
					t.Errorf("expected %t, but found %t, %v", c.want, found, err)
				}
			}
			if asked != c.asks {
				t.Errorf("expected %d lists, but found %d", c.asks, asked)
			}
		})
	}
}
