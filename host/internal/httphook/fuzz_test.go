package httphook

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Whatever a hook answers, nothing but objects of the same identity and declared conditions comes out of it.
func FuzzReadAnswer(f *testing.F) {
	for _, body := range []string{
		"", " ", "null", "{}", "[]", `{"object":{"status":{"conditions":[{"type":"Labelled","status":"True"}]}}}`,
		`{"object":{"metadata":{"name":"x"},"kind":"DeployItem"},"children":{}}`,
		`{"children":{"service":{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"},"x":1e999},` +
			`"pod":{"apiVersion":"v1","kind":"Pod"}}}`,
		`{"children":{"service":{"apiVersion":"v1","kind":"Secret","Kind":"Service"},"pod":null}}`,
		strings.Repeat(`{"object":`, 20000),
	} {
		f.Add([]byte(body))
	}
	sent, err := identify([]sdk.Child{
		{Name: "a", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Service","metadata":{"name":"a"}}`)},
		{Name: "b", Object: json.RawMessage(`{"apiVersion":"v1","kind":"Pod"}`)},
	})
	if err != nil {
		f.Fatal(err)
	}
	declared := []v1alpha1.ConditionType{"Labelled"}
	f.Fuzz(func(t *testing.T, body []byte) {
		answer, err := readAnswer(body, &v1alpha1.DeployItem{}, sent, declared)
		if err != nil {
			if answer != nil || err.Error() == "" {
				t.Errorf("found %v and the error %q", answer, err)
			}
			return
		}
		if answer.Children != nil && len(answer.Children) != len(sent) {
			t.Errorf("%d objects became %d", len(sent), len(answer.Children))
		}
		for i, c := range answer.Children {
			// As the next one reads it: into a map, with the last of two fields.
			var object map[string]any
			if err := json.Unmarshal(c.Object, &object); err != nil &&
				!strings.Contains(err.Error(), "cannot unmarshal number") {
				t.Fatalf("%s: %v", c.Object, err)
			} else if err == nil && (c.Name != sent[i].Name || object["kind"] != sent[i].identity.Kind ||
				object["apiVersion"] != sent[i].identity.APIVersion) {
				t.Errorf("%s became %s", sent[i].Object, c.Object)
			}
		}
		for _, condition := range answer.Conditions {
			if !slices.Contains(declared, condition.Type) || condition.Status == "" {
				t.Errorf("found the condition %v", condition)
			}
		}
	})
}
