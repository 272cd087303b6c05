package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

func TestParse(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason   string
		raw      string
		want     []map[string]any
		problems []string
	}{
		"nothing": {
			reason: "an entry without a manifest is reported", raw: "",
			problems: []string{"m: Required value: the manifest is empty"},
		},
		"null": {
			reason: "null is nothing", raw: "null", problems: []string{"m: Required value: the manifest is empty"},
		},
		"no object": {
			reason: "a text may well be a manifest that was not parsed, but it is none", raw: `"kind: ConfigMap"`,
			problems: []string{"m: Invalid value: expected an object"},
		},
		"numbers": {
			reason: "integers keep their precision, and what only the API server sets is dropped",
			raw: `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","uid":"1","managedFields":[],` +
				`"creationTimestamp":null},"n":9007199254740993}`,
			want: []map[string]any{{
				"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}, "n": int64(9007199254740993),
			}},
		},
		"list": {
			reason: "a List stands for its items, also if there are none",
			raw: `{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[]},
				{"apiVersion":"v1","kind":"A","metadata":{"name":"a"}}]}`,
			want: []map[string]any{{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}}},
		},
		"items": {
			reason: "a field items alone makes no List",
			raw:    `{"apiVersion":"v1","kind":"Basket","metadata":{"name":"a"},"items":["apple"]}`,
			want: []map[string]any{{
				"apiVersion": "v1", "kind": "Basket", "metadata": map[string]any{"name": "a"}, "items": []any{"apple"},
			}},
		},
		"list of a kind": {
			reason: "what is named after its items is a list of them",
			raw: `{"apiVersion":"example.org/v1","kind":"AList","items":[{"apiVersion":"example.org/v1","kind":"A",` +
				`"metadata":{"name":"a"}}]}`,
			want: []map[string]any{{"apiVersion": "example.org/v1", "kind": "A", "metadata": map[string]any{"name": "a"}}},
		},
		"custom List": {
			reason: "neither does the kind List of another group",
			raw: `{"apiVersion":"example.org/v1","kind":"List","metadata":{"name":"a"},"items":[{"apiVersion":"v1",` +
				`"kind":"A","metadata":{"name":"a"}}]}`,
			want: []map[string]any{{
				"apiVersion": "example.org/v1", "kind": "List", "metadata": map[string]any{"name": "a"},
				"items": []any{map[string]any{"apiVersion": "v1", "kind": "A", "metadata": map[string]any{"name": "a"}}},
			}},
		},
		"custom kind that ends in List": {
			reason: "nor such an ending",
			raw:    `{"apiVersion":"example.org/v1","kind":"ShoppingList","metadata":{"name":"a"},"items":[{"name":"apple"}]}`,
			want: []map[string]any{{
				"apiVersion": "example.org/v1", "kind": "ShoppingList", "metadata": map[string]any{"name": "a"},
				"items": []any{map[string]any{"name": "apple"}},
			}},
		},
		"custom kind that ends in List, without items": {
			reason: "nor does it without any items",
			raw:    `{"apiVersion":"example.org/v1","kind":"ShoppingList","metadata":{"name":"a"},"items":[]}`,
			want: []map[string]any{{
				"apiVersion": "example.org/v1", "kind": "ShoppingList", "metadata": map[string]any{"name": "a"}, "items": []any{},
			}},
		},
		"list of nonsense": {
			reason:   "types that cannot be compared are reported like all others",
			raw:      `{"apiVersion":{},"kind":{},"metadata":{"name":"a"},"items":[{"apiVersion":{},"kind":{}}]}`,
			problems: []string{"m.apiVersion: Invalid value: expected a string", "m.kind: Invalid value: expected a string"},
		},
		"string data": {
			reason: "the data of a Secret is brought to where the API server keeps it",
			raw:    `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":"YQ=="},"stringData":{"b":"b"}}`,
			want: []map[string]any{{
				"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "a"},
				"data": map[string]any{"a": "YQ==", "b": "Yg=="},
			}},
		},
		"values of a Secret": {
			reason: "wrong ones are reported by their keys, and not quoted",
			raw: `{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},
				"data":{"a":"hunter2!","b":424242,"c":"YQ==","d":null},"stringData":{"e":true,"f":"f"}}`,
			problems: []string{
				"m.stringData[e]: Invalid value: expected a string; numbers and booleans need quotes",
				"m.data[b]: Invalid value: expected a string; numbers and booleans need quotes",
				"m.data[a]: Invalid value: expected base64; plain text goes into stringData",
			},
		},
		"data of another kind": {
			reason: "only a Secret of the API server itself is one",
			raw:    `{"apiVersion":"example.org/v1","kind":"Secret","metadata":{"name":"a"},"data":{"a":1}}`,
			want: []map[string]any{{
				"apiVersion": "example.org/v1", "kind": "Secret", "metadata": map[string]any{"name": "a"},
				"data": map[string]any{"a": int64(1)},
			}},
		},
		"aggregated role": {
			reason: "the rules of an aggregated role belong to its controller",
			raw: `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a"},"rules":[],
				"aggregationRule":{"clusterRoleSelectors":[]}}`,
			want: []map[string]any{{
				"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": map[string]any{"name": "a"},
				"aggregationRule": map[string]any{"clusterRoleSelectors": []any{}},
			}},
		},
		"null among labels": {
			reason:   "nothing else of the labels could be read",
			raw:      `{"apiVersion":"v1","kind":"A","metadata":{"name":"a","labels":{"x":null,"y":"z"}}}`,
			problems: []string{"m.metadata.labels[x]: Invalid value: expected a string; numbers and booleans need quotes"},
		},
		"identity": {
			reason: "everything that is missing is reported at once",
			raw:    `{"kind":7,"metadata":{"namespace":1}}`,
			problems: []string{
				"m.apiVersion: Required value", "m.kind: Invalid value: expected a string", "m.metadata.name: Required value",
				"m.metadata.namespace: Invalid value: expected a string",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			manifests, errs := object.Parse([]byte(c.raw), field.NewPath("m"))
			var got []map[string]any
			for _, m := range manifests {
				got = append(got, m.Object.Object)
			}
			var problems []string
			for _, err := range errs {
				problems = append(problems, err.Error())
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("%s: problems: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

func TestEnumerate(t *testing.T) {
	t.Parallel()
	texts := []string{"1", "2", "3", "4", "5", "6", "7"}
	if got := object.Enumerate(texts[:5], ", ", 5); got != "1, 2, 3, 4, 5" {
		t.Errorf("got %q", got)
	}
	if got := object.Enumerate(texts, ", ", 5); got != "1, 2, 3, 4, 5, and 2 more" {
		t.Errorf("got %q", got)
	}
}
