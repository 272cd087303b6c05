package prune

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestPreparation(t *testing.T) {
	t.Parallel()
	one, two := map[string]string{"a": "b"}, map[string]string{"a": "b", "c": "d"}
	for name, c := range map[string]struct {
		annotations map[string]string
		patch, want string // want is empty for an error
	}{
		"nothing":     {nil, ``, `null`},
		"null":        {nil, `null`, `{}`},
		"annotations": {one, ``, `{"metadata":{"annotations":{"a":"b"}}}`},
		"the patch has the last word": {
			two, `{"metadata":{"annotations":{"a":null}},"spec":{"n":1}}`,
			`{"metadata":{"annotations":{"a":null,"c":"d"}},"spec":{"n":1}}`,
		},
		"list":     {nil, `["secret"]`, ""},
		"nonsense": {nil, `{"secret"`, ""},
		"metadata": {nil, `{"metadata":"secret"}`, ""},
	} {
		e := managedresource.ManagedResourceStatus{AnnotateBeforeDelete: c.annotations}
		if c.patch != "" {
			e.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(c.patch)}
		}
		got, err := preparationOf(e)
		if c.want == "" {
			if len(sdk.Codes(err)) == 0 || strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: expected a configuration error without the patch, but found %v", name, err)
			}
			continue
		}
		var want map[string]any
		if err := utiljson.Unmarshal([]byte(c.want), &want); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v; -want +got:\n%s", name, err, diff)
		}
	}
}
