package apply_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// also applies fields as another manager does, with the values that they have.
func (w *world) also(resource plugintest.Resource, name, document string) {
	w.Helper()
	options := metav1.PatchOptions{FieldManager: "another"}
	if _, err := w.Objects(resource).Patch(w.Context(), name, types.ApplyPatchType, []byte(document), options); err != nil {
		w.Fatal(err)
	}
}

// TestSharedFields: with server-side apply, a field that has left the manifest and that another manager has too stays, and
// is named with the manager. Force removes it, in the same job or in a later one.
// Rule (manifest.md#update-strategies): A field no longer in the manifest and also set by another manager is named;
// `force` removes it.
func TestSharedFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	apply1 := strategy(managedresource.UpdateStrategyApply)
	for name, early := range map[string]bool{"forced later": false, "forced": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			object := "shared-" + strings.ReplaceAll(name, " ", "-")
			settings, web := w.ConfigMap(object, fields{"keep": "1", "legacy": "1"}), w.Deployment(object, 1)
			container := web["spec"].(fields)["template"].(fields)["spec"].(fields)["containers"].([]any)[0].(fields)
			container["env"] = []any{fields{"name": "KEEP", "value": "1"}, fields{"name": "DEBUG", "value": "1"}}
			w.mustRun(manifest(settings, apply1), manifest(web, apply1))
			w.also(configMaps, object, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"`+object+`"},"data":{"legacy":"1"}}`)
			w.also(deployments, object, `{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"`+object+`"},"spec":{"template":{
				"spec":{"containers":[{"name":"main","env":[{"name":"DEBUG","value":"1"}]}]}}}}`)

			settings["data"], container["env"] = fields{"keep": "1"}, container["env"].([]any)[:1]
			changed := func(options ...func(*desired.Manifest)) []desired.Manifest {
				return []desired.Manifest{manifest(copyOf(settings), append(options, apply1)...), manifest(copyOf(web), append(options, apply1)...)}
			}
			if !early {
				if changes := w.diff(changed()...); len(changes) != 2 || !strings.Contains(changes[0].Note, "data.legacy (another)") {
					t.Errorf("expected the preview to name the fields, but found %+v", changes)
				}
				result := w.mustRun(changed()...)
				var told []string
				for _, r := range result.Retained {
					told = append(told, r.Shared...)
				}
				if !slices.Contains(told, "data.legacy (another)") ||
					!slices.Contains(told, `spec.template.spec.containers[name="main"].env[name="DEBUG"].value (another)`) {
					t.Errorf("expected the fields to be named with their manager, but found %q", told)
				}
				if found := w.both(object); found != "2 2" {
					t.Errorf("expected the fields to stay, but found %s", found)
				}
				w.Requests.Take()
				if again := w.mustRun(changed()...); len(again.Retained) > 0 || len(w.Requests.Writes()) > 0 {
					t.Errorf("expected nothing more, but found %+v, %v", again.Retained, w.Requests.Writes())
				}
			}
			if changes := w.diff(changed(force)...); len(changes) != 2 || !strings.Contains(changes[0].Note, "are removed, too") {
				t.Errorf("expected the preview to say that they go, but found %+v", changes)
			}
			w.mustRun(changed(force)...)
			if found := w.both(object); found != "1 1" {
				t.Errorf("expected the fields to be removed, but found %s", found)
			}
			w.Requests.Take()
			if w.mustRun(changed(force)...); len(w.Requests.Writes()) > 0 {
				t.Errorf("expected nothing more, but found %v", w.Requests.Writes())
			}
		})
	}
}

// both returns how many keys the ConfigMap has, and how many variables the Deployment.
func (w *world) both(name string) string {
	w.Helper()
	containers, _, _ := unstructured.NestedSlice(w.MustGet(deployments, name).Object, "spec", "template", "spec", "containers")
	variables, _ := containers[0].(fields)["env"].([]any)
	return fmt.Sprintf("%d %d", len(dataOf(w.MustGet(configMaps, name))), len(variables))
}

// TestSharedFieldsThatChange: what another manager has changed, or set anew, since the manifest has dropped it is its own.
// Rule (manifest.md#update-strategies): A shared field belongs to another manager after a change by that one.
func TestSharedFieldsThatChange(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	applied := strategy(managedresource.UpdateStrategyApply)
	w.mustRun(manifest(w.ConfigMap("a", fields{"keep": "1", "a.b": "1", "c": "1"}), applied))
	theirs := func(data string) {
		w.also(configMaps, "a", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":`+data+`}`)
	}
	theirs(`{"a.b":"1","c":"1"}`)
	kept := w.ConfigMap("a", fields{"keep": "1"})
	if result := w.mustRun(manifest(copyOf(kept), applied)); len(result.Retained) != 1 || result.Retained[0].Path == nil {
		t.Errorf("expected two fields to be told, and how to remove them, but found %+v", result.Retained)
	}
	theirs(`{"a.b":"2"}`)
	w.mustRun(manifest(copyOf(kept), applied, force))
	if diff := cmp.Diff(fields{"keep": "1", "a.b": "2"}, dataOf(w.MustGet(configMaps, "a"))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}
