package prune_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// diff returns the changes as "action object: note", without the name of the test's namespace, and checks that nothing
// was changed.
func (w *world) diff(d prune.Deletion) (texts []string, changes []sdk.Change) {
	w.Helper()
	w.requested()
	changes, err := prune.Diff(w.Context(), w.client, d)
	if err != nil {
		w.Fatal(err)
	}
	for _, r := range w.requested() {
		if !strings.HasPrefix(r, http.MethodGet+" ") {
			w.Errorf("a diff must only read, but found the request %q", r)
		}
	}
	for _, c := range changes {
		texts = append(texts, strings.ReplaceAll(fmt.Sprintf("%s %s: %s", c.Action, c.Object, c.Note), w.Namespace, "NS"))
	}
	return texts, changes
}

// Rule (manifest.md#deletion): `items diff` says which objects stay and why.
func TestDiff(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	plain, prepared, role := w.configMap("plain"), w.configMap("prepared"), w.role("a")
	prepared.AnnotateBeforeDelete = map[string]string{"a": "b"}
	kept, taken, absent, broken := w.configMap("kept"), w.configMap("taken"), w.configMap("absent"), w.configMap("broken")
	kept.Policy = managedresource.PolicyKeep
	w.patch(configMaps, w.Namespace, "taken", `{"metadata":{"labels":{"`+owner.Label+`":"x.other"}}}`)
	w.delete(configMaps, w.Namespace, "absent")
	w.configMap("unmanaged")
	w.create(secrets, w.Namespace, "left", nil)
	w.Requests.Fail(func(r *http.Request) error {
		if strings.HasSuffix(r.URL.Path, "/broken") {
			return errors.New("cut off")
		}
		return nil
	})

	texts, changes := w.diff(w.deletion("", role, kept, plain, prepared, taken, absent, broken))
	want := []string{
		"delete ConfigMap NS/plain: ",
		"delete ConfigMap NS/prepared: after it was changed by annotateBeforeDelete and patchBeforeDelete",
		"keep ConfigMap NS/taken: it belongs to the deploy item \"x.other\"",
		"fail ConfigMap NS/broken: cannot reach target cluster " + w.client.Host + ": cut off",
		"delete ClusterRole NS-a: ",
		"keep ConfigMap NS/kept: policy keep",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("default groups: -want +got:\n%s", diff)
	}
	var before map[string]any
	if err := json.Unmarshal(changes[0].Before, &before); err != nil {
		t.Fatal(err)
	}
	delete(before["metadata"].(map[string]any), "labels")
	if diff := cmp.Diff(map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": w.Namespace, "name": "plain"},
	}, before); diff != "" {
		t.Errorf("before: -want +got:\n%s", diff)
	}

	groups := all("", inNamespace("configmaps", w.Namespace, ""), inNamespace("secrets", w.Namespace, ""))
	texts, _ = w.diff(w.deletion(groups, role, kept, plain, prepared))
	const unmanaged = "not managed by this deploy item, but the deletion group has deleteAllResources"
	want = []string{
		"delete ConfigMap NS/plain: ",
		"delete ConfigMap NS/prepared: after it was changed by annotateBeforeDelete and patchBeforeDelete",
		"delete ConfigMap NS/broken: " + unmanaged,
		"delete ConfigMap NS/taken: " + unmanaged,
		"delete ConfigMap NS/unmanaged: " + unmanaged,
		"delete Secret NS/left: " + unmanaged,
		"keep ClusterRole NS-a: no deletion group takes it",
		"keep ConfigMap NS/kept: policy keep",
	}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("deleteAllResources: -want +got:\n%s", diff)
	}

	texts, _ = w.diff(w.deletion(all(`,"targetName":"other"`, inNamespace("Secret", w.Namespace, "")), kept))
	want = []string{"delete all selected Secret on the Target other: " + unmanaged, "keep ConfigMap NS/kept: policy keep"}
	if diff := cmp.Diff(want, texts); diff != "" {
		t.Errorf("another target: -want +got:\n%s", diff)
	}
}

func TestDiffOfWhatIsBeingDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	e := w.configMap("a", hold)
	if err := w.in(configMaps, w.Namespace).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	for groups, want := range map[string]string{
		"": "finalizers " + hold,
		`[{"predefinedResourceGroup":{"type":"namespaced-resources","forceDelete":true}}]`: "its finalizers are removed, since it is being deleted already: " + hold,
	} {
		if texts, _ := w.diff(w.deletion(groups, e)); len(texts) != 1 || !strings.HasSuffix(texts[0], want) {
			t.Errorf("expected one deletion with the note %q, but found %q", want, texts)
		}
	}
}
