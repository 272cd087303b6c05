package object_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// FuzzParse: a parsed object has an identity, can be copied and written, and is the same when it is parsed again. So a
// hook without changes keeps it.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		``, `null`, `[]`, `"a"`, `{`,
		`{"apiVersion":"v1","kind":"A","metadata":{"name":"a"},"n":[1,1.5,1e400,-0.0,9007199254740993,1e17]}`,
		`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"List","items":[null]},{"apiVersion":"v1",` +
			`"kind":"A","metadata":{"name":"a"}}]}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a","uid":"1"},"data":{"a":"YQ=="},"stringData":{"b":"b"}}`,
		`{"apiVersion":"v1","kind":"Secret","metadata":{"name":"a"},"data":7,"stringData":{"b":"b"}}`,
		`{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"a"},"rules":[],` +
			`"aggregationRule":{}}`,
		`{"apiVersion":"v1","kind":"AList","metadata":{"name":"a"},"items":[{"apiVersion":"v1","kind":"A",` +
			`"metadata":{"name":"a"}}]}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		manifests, _ := object.Parse(raw, field.NewPath("m"))
		for _, m := range manifests {
			if o := m.Object; o.GetAPIVersion() == "" || o.GetKind() == "" || o.GetName() == "" {
				t.Errorf("%s has no identity: %v", m.Path, o)
			}
			written, err := json.Marshal(m.Object.DeepCopy().Object)
			if err != nil {
				t.Fatalf("write %s: %v", m.Path, err)
			}
			again, problems := object.Parse(written, m.Path)
			if len(problems) > 0 || len(again) != 1 {
				t.Fatalf("%s parsed again: expected one object, but found %d and %v", m.Path, len(again), problems)
			}
			rewritten, err := json.Marshal(again[0].Object.Object)
			if err != nil {
				t.Fatalf("write %s again: %v", m.Path, err)
			}
			if diff := cmp.Diff(decode(t, written), decode(t, rewritten)); diff != "" {
				t.Errorf("%s: -once +twice:\n%s", m.Path, diff)
			}
		}
	})
}

// decode reads JSON for a comparison by value, in which -0 is 0.
func decode(t *testing.T, document []byte) any {
	t.Helper()
	var value any
	if err := json.Unmarshal(document, &value); err != nil {
		t.Fatal(err)
	}
	return value
}
