package prune

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestPreparation(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason      string
		annotations map[string]string
		patch       string
		want        map[string]any
		wrong       bool
	}{
		"nothing": {reason: "most objects are deleted as they are"},
		"null":    {reason: "null changes nothing", patch: `null`, want: map[string]any{}},
		"annotations": {
			reason: "annotations are a patch", annotations: map[string]string{"a": "b"},
			want: map[string]any{"metadata": map[string]any{"annotations": map[string]any{"a": "b"}}},
		},
		"both": {
			reason: "both are done at once, and the patch has the last word", annotations: map[string]string{"a": "b", "c": "d"},
			patch: `{"metadata":{"annotations":{"a":null}},"spec":{"n":1}}`,
			want: map[string]any{
				"metadata": map[string]any{"annotations": map[string]any{"a": nil, "c": "d"}}, "spec": map[string]any{"n": int64(1)},
			},
		},
		"list":     {reason: "a list is no patch", patch: `["secret"]`, wrong: true},
		"nonsense": {reason: "nor is nonsense", patch: `{"secret"`, wrong: true},
		"metadata": {reason: "the object would be another one", patch: `{"metadata":"secret"}`, wrong: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := managedresource.ManagedResourceStatus{AnnotateBeforeDelete: c.annotations}
			if c.patch != "" {
				e.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(c.patch)}
			}
			got, err := preparationOf(e)
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if (err != nil) != c.wrong {
				t.Fatalf("%s: found the error %v", c.reason, err)
			}
			if err != nil && (len(sdk.Codes(err)) == 0 || strings.Contains(err.Error(), "secret")) {
				t.Errorf("%s: expected a configuration error that does not quote the patch, but found %v", c.reason, err)
			}
		})
	}
}
