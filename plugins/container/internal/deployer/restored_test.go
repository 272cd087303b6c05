package deployer_test

import (
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// TestRestoredWithAnotherUID: a state belongs to the UID of its item. An item that was restored with another one does
// not run without its state, and goes on with it when the Secrets name the new UID; one without status begins anew.
// Rule (backup.md#items-without-their-status): A container restored with another UID runs only after its state names
// the new UID.
func TestRestoredWithAnotherUID(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item("count")
	w.succeed(item)
	old := item.UID
	item.UID = "11111111" + old[8:]
	if found := w.failing(item); !strings.Contains(found, "the state of the last run is not complete") {
		t.Errorf("expected StateLost, but found %s", found)
	}
	w.relabel(old, item.UID)
	if found := fmt.Sprint(w.succeed(item)["count"]); found != "2" {
		t.Errorf("expected that the item goes on with its state, but found count %s", found)
	}
	item.Status.ProviderStatus = nil
	plugintest.NewJob(item)
	if found := fmt.Sprint(w.exportsOf(w.Finish(plugintest.Reconcile, item))["count"]); found != "1" {
		t.Errorf("expected that an item without status begins anew, but found count %s", found)
	}
}

// relabel gives the Secrets of an item to another one, as docs/operators-guide.md says.
func (w *world) relabel(from, to types.UID) {
	w.Helper()
	secrets := w.client.CoreV1().Secrets(w.Namespace)
	found, err := secrets.List(w.Context(), metav1.ListOptions{
		LabelSelector: "container.pergola.dev/item=" + string(from),
	})
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range found.Items {
		patch := fmt.Appendf(nil, `{"metadata":{"labels":{"container.pergola.dev/item":%q}}}`, to)
		if _, err := secrets.Patch(w.Context(), s.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err != nil {
			w.Fatal(err)
		}
	}
}
