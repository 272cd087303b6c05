package prune_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// remaining returns the names of all objects of a kind in the namespace.
func (w *world) remaining(resource schema.GroupVersionResource) []string {
	w.Helper()
	list, err := w.in(resource, w.Namespace).List(w.Context(), metav1.ListOptions{})
	if err != nil {
		w.Fatal(err)
	}
	var found []string
	for _, o := range list.Items {
		found = append(found, o.GetName())
	}
	return found
}

// TestNamespaceWithItsObjects: there is no controller on the test's cluster that would empty and remove the namespace;
// the test does what it would do.
func TestNamespaceWithItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := w.createNamespace(w.Namespace + "-inner")
	object := w.create(configMaps, inner.Resource.Name, "a", withFinalizers(hold))

	w.mustWaitFor(w.mustRun(w.deletion("", inner, object)), "ConfigMap "+inner.Resource.Name+"/a", hold)
	w.mustBe("there", inner)
	w.patch(configMaps, inner.Resource.Name, "a", `{"metadata":{"finalizers":null}}`)
	w.mustWaitFor(w.mustRun(w.deletion("", inner, object)), "Namespace "+inner.Resource.Name, "being deleted since")

	w.patch(namespaces, "", inner.Resource.Name, `{"status":{"conditions":[
		{"type":"NamespaceContentRemaining","status":"True","reason":"R","message":"Some resources are remaining: widgets has 2"},
		{"type":"NamespaceFinalizersRemaining","status":"True","reason":"R","message":"Some content has finalizers remaining: stuck in 2"},
		{"type":"NamespaceDeletionDiscoveryFailure","status":"False","reason":"R","message":"All resources successfully discovered"}]}}`, "status")
	w.requested()
	result := w.mustRun(w.deletion(`[{"predefinedResourceGroup":{"type":"cluster-scoped-resources","forceDelete":true}}]`, inner))
	w.mustWaitFor(result, "Z; Some resources are remaining: widgets has 2; Some content has finalizers remaining: stuck in 2)")
	if diff := cmp.Diff([]string{"GET " + inner.Resource.Name}, w.requested()); diff != "" {
		t.Errorf("what is being deleted is only looked at: -want +got:\n%s", diff)
	}
	w.finalize(inner)
	w.mustFinish(w.deletion("", inner))
}

// TestManyObjectsAreLookedAtAsAWhole: where the metadata do not tell enough, objects are not looked at in a list,
// however many there are.
func TestManyObjectsAreLookedAtAsAWhole(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var objects, inner []entry
	for i := range 5 {
		object := w.configMap(fmt.Sprintf("object-%d", i))
		object.PatchBeforeDelete = &runtime.RawExtension{Raw: []byte(`{"data":{"mode":"down"}}`)}
		objects = append(objects, object)
		namespace := w.createNamespace(fmt.Sprintf("%s-%d", w.Namespace, i))
		w.patch(namespaces, "", namespace.Resource.Name,
			`{"status":{"conditions":[{"type":"NamespaceContentRemaining","status":"True","reason":"R","message":"2 widgets remain"}]}}`, "status")
		inner = append(inner, namespace)
	}
	w.mustFinish(w.deletion("", objects...))
	if patches := strings.Count(strings.Join(w.requested(), " "), http.MethodPatch); patches != 5 {
		t.Errorf("expected each object to be changed before its deletion, but found %d changes", patches)
	}
	w.mustRun(w.deletion("", inner...))
	for _, text := range w.mustRun(w.deletion("", inner...)).Waiting {
		if !strings.Contains(text, "2 widgets remain") {
			t.Errorf("expected what is left in the namespace, but found %q", text)
		}
	}
}

// finalize ends the deletion of a namespace as its controller does.
func (w *world) finalize(namespace entry) {
	w.Helper()
	live := w.get(namespace)
	live.Object["spec"] = map[string]any{}
	if _, err := w.in(namespaces, "").Update(w.Context(), live, metav1.UpdateOptions{}, "finalize"); err != nil {
		w.Fatal(err)
	}
	w.Eventually("the namespace to be gone", func() bool { return w.get(namespace) == nil })
}

// TestNamespaceIsDeletedUnderTheItem: what is in a namespace goes with it, and objects in a namespace that is gone are
// gone.
func TestNamespaceIsDeletedUnderTheItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := w.createNamespace(w.Namespace + "-inner")
	removed := w.create(configMaps, inner.Resource.Name, "removed", nil)
	held := w.create(configMaps, inner.Resource.Name, "held", withFinalizers(hold))
	held.AnnotateBeforeDelete = map[string]string{"confirm": "true"}
	if err := w.in(namespaces, "").Delete(t.Context(), inner.Resource.Name, metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.delete(configMaps, inner.Resource.Name, "removed")

	result := w.mustRun(w.deletion("", removed, held))
	w.mustWaitFor(result, "ConfigMap "+inner.Resource.Name+"/held", hold)
	if diff := cmp.Diff([]string{"ConfigMap " + inner.Resource.Name + "/removed"}, gone(result)); diff != "" {
		t.Errorf("gone: -want +got:\n%s", diff)
	}
	w.patch(configMaps, inner.Resource.Name, "held", `{"metadata":{"finalizers":null}}`)
	w.finalize(inner)
	w.mustFinish(w.deletion("", removed, held))
}

// TestDefinitionIsDeletedWithItsObjects: the API server deletes the objects of a kind that is not defined any more.
func TestDefinitionIsDeletedWithItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	definition, things := w.crd("Thing")
	object := w.create(things, w.Namespace, "a", map[string]any{
		"kind": "Thing", "metadata": map[string]any{"finalizers": []any{hold}},
	})
	const definitionFirst = `[{"predefinedResourceGroup":{"type":"crds"}},{"predefinedResourceGroup":{"type":"namespaced-resources"}}]`

	result := w.mustRun(w.deletion(definitionFirst, object, definition))
	w.mustWaitFor(result, "CustomResourceDefinition "+definition.Resource.Name, "being deleted since")
	w.Eventually("the API server to say why the definition stays", func() bool {
		result = w.mustRun(w.deletion(definitionFirst, object, definition))
		return len(result.Waiting) == 1 && strings.Contains(result.Waiting[0], "CustomResource deletion is in progress")
	})
	w.patch(things, w.Namespace, "a", `{"metadata":{"finalizers":null}}`)
	w.Eventually("both to be gone", func() bool {
		result = w.mustRun(w.deletion(definitionFirst, object, definition))
		return len(result.Waiting) == 0
	})
	if len(result.Gone) != 2 {
		t.Errorf("expected both to be gone, but found %q and %q", gone(result), left(result))
	}
}
