package prune

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	jsonpatch "gopkg.in/evanphx/json-patch.v4"
	"k8s.io/apimachinery/pkg/runtime"
	"pgregory.net/rapid"

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

// documents draws maps of the same few names. Fields with the name "map" are maps, as those that patches of one object
// agree on are.
func documents(depth int, withNull bool) *rapid.Generator[map[string]any] {
	return rapid.Custom(func(t *rapid.T) map[string]any {
		document := map[string]any{}
		leaves := []any{"x", int64(1), true, []any{"x"}}
		if withNull {
			leaves = append(leaves, nil)
		}
		for _, name := range rapid.SliceOfDistinct(rapid.SampledFrom([]string{"a", "b", "map"}), rapid.ID).Draw(t, "names") {
			if name != "map" {
				document[name] = rapid.SampledFrom(leaves).Draw(t, name)
			} else if depth > 0 {
				document[name] = documents(depth-1, withNull).Draw(t, name)
			}
		}
		return document
	})
}

// TestCompose: two patches in one do what both do one after the other.
func TestCompose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		live := documents(3, false).Draw(t, "live")
		first, second := documents(3, true).Draw(t, "first"), documents(3, true).Draw(t, "second")
		merged := func(document []byte, patches ...map[string]any) []byte {
			for _, patch := range patches {
				var err error
				if document, err = jsonpatch.MergePatch(document, marshal(t, patch)); err != nil {
					t.Fatal(err)
				}
			}
			return document
		}
		want, got := merged(marshal(t, live), first, second), merged(marshal(t, live), compose(first, second))
		if !jsonpatch.Equal(want, got) {
			t.Errorf("two patches in one: expected %s, but found %s", want, got)
		}
	})
}

func marshal(t *rapid.T, value any) []byte {
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return document
}
