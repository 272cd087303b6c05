package object_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

func TestParse(t *testing.T) {
	t.Parallel()
	const quotes = "Invalid value: expected a string; numbers and booleans need quotes"
	const role = `apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: a}, aggregationRule: {
		clusterRoleSelectors: []}`
	const a = `{apiVersion: v1, kind: A, metadata: {name: a}}`
	for name, c := range map[string]struct {
		reason, raw, want string
		problems          []string
	}{
		"nothing": {
			"an entry without a manifest is reported", ``, ``, []string{"m: Required value: the manifest is empty"},
		},
		"null": {"null is nothing", `null`, ``, []string{"m: Required value: the manifest is empty"}},
		"no object": {
			"a text may well be a manifest that was not parsed, but it is none", `"kind: ConfigMap"`, ``,
			[]string{"m: Invalid value: expected an object"},
		},
		"numbers": {
			"integers keep their precision, and what only the API server sets is dropped",
			`{apiVersion: v1, kind: A, metadata: {name: a, uid: "1", managedFields: [], creationTimestamp: null},
				n: 9007199254740993}`,
			`{apiVersion: v1, kind: A, metadata: {name: a}, n: 9007199254740993}`, nil,
		},
		"list": {
			"a List stands for its items, also if there are none",
			`{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: List, items: []}, ` + a + `]}`, a, nil,
		},
		"list of a kind": {
			"what is named after its items is a list of them", `{apiVersion: v1, kind: AList, items: [` + a + `]}`, a, nil,
		},
		"list of nonsense": {
			"types that cannot be compared are reported like all others",
			`{apiVersion: {}, kind: {}, metadata: {name: a}, items: [{apiVersion: {}, kind: {}}]}`, ``,
			[]string{"m.apiVersion: Invalid value: expected a string", "m.kind: Invalid value: expected a string"},
		},
		"string data": {
			"the data of a Secret is brought to where the API server keeps it",
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: YQ==}, stringData: {b: b}}`,
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, data: {a: YQ==, b: Yg==}}`, nil,
		},
		"values of a Secret": {
			"wrong ones are reported by their keys, and not quoted",
			`{apiVersion: v1, kind: Secret, metadata: {name: a}, stringData: {e: true, f: f},
				data: {a: "hunter2!", b: 424242, c: YQ==, d: null}}`, ``,
			[]string{
				"m.stringData[e]: " + quotes, "m.data[b]: " + quotes,
				"m.data[a]: Invalid value: expected base64; plain text goes into stringData",
			},
		},
		"aggregated role": {
			"the rules of an aggregated role belong to its controller",
			`{` + role + `, rules: []}`, `{` + role + `}`, nil,
		},
		// Rule (manifest.md#manifests): Labels and annotations without a value are left out.
		"null among labels": {
			"the API server accepts them, and the others have to be read",
			`{apiVersion: v1, kind: A, metadata: {name: a, labels: {x: null, z: z}, annotations: {x: null}}}`,
			`{apiVersion: v1, kind: A, metadata: {name: a, labels: {z: z}, annotations: {}}}`, nil,
		},
		"number among labels": {
			"the API server would refuse it", `{apiVersion: v1, kind: A, metadata: {name: a, labels: {x: 1, z: z}}}`, ``,
			[]string{"m.metadata.labels[x]: " + quotes},
		},
		"name of several segments": {
			"client-go would not send it, so that the job would be tried again and again",
			`{apiVersion: v1, kind: A, metadata: {name: a/b, namespace: ..}}`, ``, []string{
				`m.metadata.name: Invalid value: "a/b": may not contain '/'`,
				`m.metadata.namespace: Invalid value: "..": may not be '..'`,
			},
		},
		"identity": {
			"everything that is missing is reported at once", `{kind: 7, metadata: {namespace: 1}}`, ``, []string{
				"m.apiVersion: Required value", "m.kind: Invalid value: expected a string",
				"m.metadata.name: Required value", "m.metadata.namespace: Invalid value: expected a string",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, problems := parse(t, c.raw)
			var want []map[string]any
			if c.want != "" {
				want = []map[string]any{plugintest.Fields(c.want)}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if diff := cmp.Diff(c.problems, problems); diff != "" {
				t.Errorf("%s: problems: -want +got:\n%s", c.reason, diff)
			}
		})
	}
}

// parse parses a manifest in YAML, and returns its objects and problems.
func parse(t *testing.T, document string) (found []map[string]any, problems []string) {
	t.Helper()
	raw, err := yaml.YAMLToJSON([]byte(document))
	if err != nil {
		t.Fatal(err)
	}
	if document == "" {
		raw = nil
	}
	manifests, errs := object.Parse(raw, field.NewPath("m"))
	for _, m := range manifests {
		found = append(found, m.Object.Object)
	}
	for _, err := range errs {
		problems = append(problems, err.Error())
	}
	return found, problems
}

// TestParseLeaves: what only looks like a list or a Secret stays as it is.
func TestParseLeaves(t *testing.T) {
	t.Parallel()
	for reason, document := range map[string]string{
		"a field items alone makes no List": `{apiVersion: v1, kind: Basket, metadata: {name: a}, items: [apple]}`,
		"neither does the kind List of another group": `{apiVersion: example.org/v1, kind: List, metadata: {name: a},
			items: [{apiVersion: v1, kind: A, metadata: {name: a}}]}`,
		"nor such an ending": `{apiVersion: example.org/v1, kind: ShoppingList, metadata: {name: a},
			items: [{name: apple}]}`,
		"nor does it without any items": `{apiVersion: example.org/v1, kind: ShoppingList, metadata: {name: a}, items: []}`,
		"only a Secret of the API server itself is one": `{apiVersion: example.org/v1, kind: Secret, metadata: {name: a},
			data: {a: 1}}`,
	} {
		found, problems := parse(t, document)
		if diff := cmp.Diff([]map[string]any{plugintest.Fields(document)}, found); diff != "" || len(problems) > 0 {
			t.Errorf("%s: problems %q, -want +got:\n%s", reason, problems, diff)
		}
	}
}

func TestEnumerate(t *testing.T) {
	t.Parallel()
	texts := []string{"1", "2", "3", "4", "5", "6", "7"}
	for n, want := range map[int]string{5: "1, 2, 3, 4, 5", 7: "1, 2, 3, 4, 5, and 2 more"} {
		if got := object.Enumerate(texts[:n], ", ", 5); got != want {
			t.Errorf("expected %q, but found %q", want, got)
		}
	}
}
