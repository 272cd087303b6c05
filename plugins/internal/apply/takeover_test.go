package apply_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// TestFieldsOfClientSideApply: what a client without server-side apply has made is ours when it is applied first, so
// that a field goes that leaves the manifest later. What others write after that is theirs.
func TestFieldsOfClientSideApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ssa := strategy(managedresource.UpdateStrategyApply)
	for _, manager := range []string{"kubectl-client-side-apply", "manifest-deployer-controller"} {
		t.Run(manager, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			web := w.Deployment(manager, 2)
			container := func(o fields) fields {
				return o["spec"].(fields)["template"].(fields)["spec"].(fields)["containers"].([]any)[0].(fields)
			}
			container(web)["env"] = []any{fields{"name": "KEEP", "value": "1"}, fields{"name": "DEBUG", "value": "1"}}
			_, err := w.Objects(deployments).Create(
				t.Context(), &unstructured.Unstructured{Object: copyOf(web)}, metav1.CreateOptions{FieldManager: manager})
			if err != nil {
				t.Fatal(err)
			}
			w.mustRun(manifest(web, ssa))
			_, err = w.Objects(deployments).Patch(t.Context(), manager, types.MergePatchType,
				[]byte(`{"metadata":{"annotations":{"theirs":"yes"}}}`), metav1.PatchOptions{FieldManager: manager})
			if err != nil {
				t.Fatal(err)
			}

			less := copyOf(web)
			container(less)["env"] = []any{fields{"name": "KEEP", "value": "1"}}
			if changes := w.diff(manifest(less, ssa)); len(changes) != 1 {
				t.Errorf("expected the field that goes to be shown, but found %+v", changes)
			}
			w.mustRun(manifest(less, ssa))
			live := w.MustGet(deployments, manager)
			if diff := cmp.Diff(container(less)["env"], container(live.Object)["env"]); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if live.GetAnnotations()["theirs"] != "yes" {
				t.Errorf("expected the annotation of another client to stay, but found %v", live.GetAnnotations())
			}
		})
	}
}
