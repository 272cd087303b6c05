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
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

type fields = map[string]any

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
	const live = `{spec: {replicas: 3, list: [1, 2], inner: {theirs: true, more: true}, containers: [
		{name: sidecar, image: "s:1"}, {name: main, image: "m:2", args: [x]}]}}`
	const image = `/spec/containers/0/image`
	for name, c := range map[string]struct{ wanted, pointer, left, removed string }{
		"a field": {`spec: {replicas: 1}`, `/spec/replicas`, `spec: {replicas: 3}`, `spec: {}`},
		"a field that the manifest lacks": {
			`spec: {}`, `/spec/inner/theirs`, `spec: {inner: {theirs: true}}`, `spec: {}`,
		},
		"a field that the object lacks": {`spec: {paused: true}`, `/spec/paused`, `spec: {}`, `spec: {}`},
		"a field that neither has":      {`spec: {}`, `/spec/a/b`, `spec: {}`, `spec: {}`},
		"a field of an element, by its name": {
			`spec: {containers: [{name: main, image: "m:1"}]}`, image,
			`spec: {containers: [{name: main, image: "m:2"}]}`, `spec: {containers: [{name: main}]}`,
		},
		"a field of a new element": {
			`spec: {containers: [{name: new, image: "n:1"}]}`, image,
			`spec: {containers: [{name: new, image: "n:1"}]}`, `spec: {containers: [{name: new}]}`,
		},
		"an element stands for the list": {`spec: {list: [1]}`, `/spec/list/0`, `spec: {list: [1, 2]}`, `spec: {}`},
		"an index that there is not": {
			`spec: {containers: []}`, `/spec/containers/7/image`, `spec: {containers: []}`, `spec: {containers: []}`,
		},
		"a field of a text": {`spec: x`, `/spec/replicas`, `spec: x`, `spec: x`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pointer, err := parse(c.pointer)
			if err != nil {
				t.Fatal(err)
			}
			out, existing := plugintest.Fields(c.wanted), plugintest.Fields(live)
			Leave(out, existing, pointer)
			if diff := cmp.Diff(plugintest.Fields(c.left), out); diff != "" {
				t.Errorf("left: -want +got:\n%s", diff)
			}
			if diff := cmp.Diff(plugintest.Fields(live), existing); diff != "" {
				t.Errorf("the object was changed: -want +got:\n%s", diff)
			}
			out = plugintest.Fields(c.wanted)
			Remove(out, pointer)
			if diff := cmp.Diff(plugintest.Fields(c.removed), out); diff != "" {
				t.Errorf("removed: -want +got:\n%s", diff)
			}
		})
	}
}

func TestBundles(t *testing.T) {
	t.Parallel()
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: []byte("x")})
	bundle := `caBundle: ` + base64.StdEncoding.EncodeToString(block)
	const (
		webhooks        = `apiVersion: admissionregistration.k8s.io/v1, kind: MutatingWebhookConfiguration, webhooks: `
		definition      = `apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, spec: `
		service         = `apiVersion: apiregistration.k8s.io/v1, kind: APIService, spec: `
		of, placeholder = `service: {namespace: ns, name: s}`, `caBundle: Cg==`
	)
	conversion := func(config string) string {
		return definition + `{conversion: {webhook: {clientConfig: {` + config + `}}}}`
	}
	for name, c := range map[string]struct {
		wanted, live string
		want         []string
	}{
		"webhooks, by their names": {
			webhooks + `[{name: none, clientConfig: {service: {namespace: ns, name: s, port: 2}}},
				{name: moved, clientConfig: {service: {namespace: ns, name: other}}},
				{name: new, clientConfig: {url: "https://u"}}, {name: nonsense, clientConfig: x}, nonsense,
				{name: line, clientConfig: {url: "https://u", ` + placeholder + `}},
				{name: empty, clientConfig: {url: "https://u", caBundle: ""}},
				{name: given, clientConfig: {url: "https://u", ` + bundle + `}}]`,
			webhooks + `[{name: given, clientConfig: {url: "https://u", ` + bundle + `}},
				{name: empty, clientConfig: {url: "https://u", ` + bundle + `}},
				{name: line, clientConfig: {url: "https://u", ` + bundle + `}},
				{name: moved, clientConfig: {` + of + `, ` + bundle + `}},
				{name: none, clientConfig: {` + of + `, caBundle: YQ==}}]`,
			[]string{
				"webhooks/0/clientConfig/caBundle", "webhooks/5/clientConfig/caBundle", "webhooks/6/clientConfig/caBundle",
			},
		},
		"a placeholder over another one": {
			conversion(of + `, ` + placeholder), conversion(of + `, caBundle: YQ==`), nil,
		},
		"a conversion": {
			conversion(of), conversion(of + `, ` + bundle), []string{"spec/conversion/webhook/clientConfig/caBundle"},
		},
		"no conversion any more": {definition + `{}`, conversion(of + `, ` + bundle), nil},
		"an API service": {
			service + `{` + of + `}`, service + `{` + of + `, ` + bundle + `}`, []string{"spec/caBundle"},
		},
		"an API service that is not verified": {
			service + `{` + of + `, insecureSkipTLSVerify: true}`, service + `{` + of + `, ` + bundle + `}`, nil,
		},
		"another kind": {
			`apiVersion: v1, kind: APIService, spec: {` + of + `}`,
			`apiVersion: v1, kind: APIService, spec: {` + of + `, ` + bundle + `}`, nil,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var found []string
			for _, p := range Bundles(plugintest.Fields("{"+c.wanted+"}"), plugintest.Fields("{"+c.live+"}")) {
				found = append(found, strings.Join(p, "/"))
			}
			if diff := cmp.Diff(c.want, found); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
		})
	}
}

func TestAutoscalers(t *testing.T) {
	t.Parallel()
	scaler := func(more, target string) *unstructured.Unstructured {
		return plugintest.Object(`{` + more + `, spec: {scaleTargetRef: {` + target + `}}}`)
	}
	const deployment, rose = `apiVersion: apps/v1, kind: Deployment, `, `apiVersion: roses.example.org/v1, kind: Rose, `
	of := func(namespace, target string) *unstructured.Unstructured {
		return scaler(`apiVersion: autoscaling/v2, kind: HorizontalPodAutoscaler, metadata: {namespace: `+namespace+`}`,
			deployment+target)
	}
	coming, elsewhere := of("ns", `name: soon`), of("other", `name: b`)
	list := &unstructured.UnstructuredList{Items: []unstructured.Unstructured{
		*scaler(`metadata: {}`, deployment+`name: web`), *scaler(`metadata: {}`, rose+`name: web`),
		*scaler(`metadata: {deletionTimestamp: "2026-01-01T00:00:00Z"}`, deployment+`name: going`),
		*scaler(`metadata: {name: dropped}`, deployment+`name: unscaled`), {Object: fields{}},
	}}
	notFound := apierrors.NewNotFound(schema.GroupResource{}, "")
	forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", errors.New("no"))
	const one, three, none, unset = `, spec: {replicas: 1}`, `, spec: {replicas: 3}`, `, spec: {replicas: 0}`, `, spec: {}`
	const newRose, other = `apiVersion: roses.example.org/v2, kind: Rose, `, `apiVersion: v1, kind: Deployment, `
	named := func(name string) string { return `metadata: {namespace: ns, name: ` + name + `}` }
	for name, c := range map[string]struct {
		o, wanted, live string
		err             error
		want            bool
		asks            int
		fails           bool
	}{
		"scaled":        {deployment + named("web"), one, three, nil, true, 1, false},
		"another kind":  {newRose + named("web"), one, three, nil, true, 1, false},
		"not named":     {deployment + named("web"), unset, three, nil, true, 1, false},
		"another group": {other + named("web"), one, three, nil, false, 1, false},
		"another name":  {deployment + named("b"), one, three, nil, false, 1, false},
		"going":         {deployment + named("going"), one, three, nil, false, 1, false},
		"dropped":       {deployment + named("unscaled"), one, three, nil, false, 1, false},
		"about to come": {deployment + named("soon"), unset, three, nil, true, 1, false},
		"the same":      {deployment + named("web"), three, three, nil, false, 0, false},
		"the default":   {deployment + named("web"), unset, one, nil, false, 0, false},
		"none wanted":   {deployment + named("web"), none, three, nil, false, 0, false},
		"none found":    {deployment + named("web"), one, none, nil, false, 0, false},
		"no namespace":  {deployment + `metadata: {name: web}`, one, three, nil, false, 0, false},
		"no replicas":   {`apiVersion: v1, kind: ConfigMap, ` + named("web"), unset, unset, nil, false, 0, false},
		"not served":    {deployment + named("web"), one, three, notFound, false, 1, false},
		"no permission": {deployment + named("web"), one, three, forbidden, false, 1, false},
		"an error":      {deployment + named("web"), one, three, errors.New("x"), false, 2, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := 0
			a := NewAutoscalers(func(_ context.Context, namespace string) (*unstructured.UnstructuredList, error) {
				if asked++; namespace != "ns" {
					t.Errorf("expected the namespace of the object, but found %s", namespace)
				}
				return list, c.err
			}, Changes{
				Wanted:  []*unstructured.Unstructured{coming, elsewhere},
				Dropped: func(namespace, name string) bool { return namespace == "ns" && name == "dropped" },
			})
			for range 2 {
				found, err := a.Scale(t.Context(),
					plugintest.Fields("{"+c.o+c.wanted+"}"), plugintest.Fields("{"+c.o+c.live+"}"))
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
