package deployer_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestOrphansAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("stays", nil), w.configMap("goes", nil), w.configMap("sticks", nil)))
	w.mustSucceed(item)
	w.Patch(configMaps, "sticks", `{"metadata":{"finalizers":["example.org/hold"]}}`)

	w.SetConfig(item, config(w.configMap("stays", nil)))
	result := w.Do(plugintest.Reconcile, item)
	w.mustWait(result, "ConfigMap "+w.Namespace+"/sticks", "being deleted since", "example.org/hold")
	if diff := cmp.Diff([]string{"ConfigMap stays", "ConfigMap sticks"}, w.managed(item)); diff != "" {
		t.Errorf("managed while waiting: -want +got:\n%s", diff)
	}
	w.Patch(configMaps, "sticks", `{"metadata":{"finalizers":null}}`)
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"ConfigMap stays"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
	if w.Get(configMaps, "goes") != nil || w.Get(configMaps, "sticks") != nil || w.Get(configMaps, "stays") == nil {
		t.Error("expected the orphans, and only them, to be gone")
	}
}

func TestReplacedObjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	if err := w.Objects(configMaps).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &unstructured.Unstructured{Object: w.configMap("a", object{"owner": "somebody"})}
	if _, err := w.Objects(configMaps).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "a") == nil {
		t.Error("an object that somebody else created under the name was deleted")
	}
}

func TestDeleteWaitsForFinalizersAndOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": w.Namespace}}
	item := w.item(config(w.configMap("held", nil), inner))
	w.mustSucceed(item)
	w.Patch(configMaps, "held", `{"metadata":{"finalizers":["example.org/hold"]}}`)
	w.Requests.Take()
	w.mustWait(w.Do(plugintest.Delete, item), "ConfigMap "+w.Namespace+"/held", "example.org/hold")
	for _, r := range w.Requests.Take() {
		if strings.Contains(r, "clusterroles") {
			t.Errorf("a cluster-scoped object was touched before the namespaced ones were gone: %s", r)
		}
	}
	w.Patch(configMaps, "held", `{"metadata":{"finalizers":null}}`)
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if got := w.managed(item); len(got) != 0 {
		t.Errorf("expected nothing to be managed any more, but found %v", got)
	}
}

func TestDeleteWithoutProviderStatus(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	if result := w.Plugin.Delete(t.Context(), sdktest.Call{DeployItem: item}); result.Succeeded == nil {
		t.Errorf("expected success even without a target, but found: %s", result)
	}
	if got := w.Requests.Take(); len(got) > 0 {
		t.Errorf("expected no request, but found %v", got)
	}
}

func TestObjectsOfNoDeletionGroupStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(), "deletionGroups", []any{object{"predefinedResourceGroup": object{"type": "empty"}}}))
	result := w.Do(plugintest.Delete, item)
	if result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "a") == nil {
		t.Error("the object must stay")
	}
	if got := eventsOf(result); len(got) != 1 || !strings.Contains(got[0], "LeftOnTarget: ConfigMap "+w.Namespace+"/a stays on the target") {
		t.Errorf("expected an event about the object that stays, but found %q", got)
	}
}

func TestMistakesDuringADeletion(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, c := range map[string]struct {
		reason, key string
		value       any
		want        string // empty: the deletion succeeds
	}{
		"groups":         {reason: "they may say that objects stay", key: "deletionGroups", value: []any{object{}}, want: "deletionGroups[0]"},
		"type of groups": {reason: "they may say that objects stay", key: "deletionGroups", value: "all", want: "deletionGroups"},
		"anything else":  {reason: "a mistake must not prevent a deletion", key: "manifests", value: "none"},
	} {
		t.Run(name, func(t *testing.T) {
			item := w.item(config(w.configMap("a", nil)))
			w.mustSucceed(item)
			w.SetConfig(item, with(config(), c.key, c.value))
			result := w.UntilDone(plugintest.Delete, item)
			if c.want != "" {
				w.MustFail(result, plugintest.ConfigurationProblem, c.want)
			} else if result.Succeeded == nil {
				t.Errorf("%s: expected success, but found: %s", c.reason, result)
			}
			if (w.Get(configMaps, "a") != nil) != (c.want != "") {
				t.Errorf("%s: the object is there: %t", c.reason, c.want == "")
			}
		})
	}
}

func TestNeverCreatedObjectOfSomebodyElseIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := &unstructured.Unstructured{Object: w.configMap("foreign", nil)}
	if _, err := w.Objects(configMaps).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	item := w.item(config(w.configMap("foreign", nil)))
	w.Requests.Fail(func(r *http.Request) error {
		if r.Method == http.MethodPost {
			return errors.New("cut off")
		}
		return nil
	})
	if result := w.Do(plugintest.Reconcile, item); result.Failed == nil {
		t.Fatalf("expected a failure, but found: %s", result)
	}
	w.Requests.Undisturbed()
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "foreign") == nil {
		t.Error("an object that the item never touched was deleted")
	}
}

func TestNamespaceIsDeletedAfterItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.Namespace + "-inner"
	inner := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "a", "namespace": name}}
	item := w.item(config(inner, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}))
	w.mustSucceed(item)
	// Without a controller the namespace never goes, and to delete it again is a conflict.
	for range 2 {
		w.mustWait(w.Do(plugintest.Delete, item), "the deletion of Namespace "+name, "being deleted since")
	}
	if diff := cmp.Diff([]string{"Namespace " + name}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
}

func TestObjectsOfAKindThatIsGoneAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.custom("Relic", "r"), w.crd("Relic")))
	w.mustSucceed(item)
	if err := w.Objects(crds).Delete(t.Context(), "relics."+w.group(), metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	w.Eventually("the definition to be gone", func() bool { return w.Get(crds, "relics."+w.group()) == nil })
	deleted := w.UntilDone(plugintest.Delete, item)
	if deleted.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", deleted)
	}
}

func TestKeptObjectsStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	item.Status.ProviderStatus.Raw = []byte(strings.Replace(string(item.Status.ProviderStatus.Raw), `"manage"`, `"keep"`, 1))
	if result := w.Do(plugintest.Delete, item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.Get(configMaps, "a") == nil {
		t.Error("an object with the policy keep was deleted")
	}
}
