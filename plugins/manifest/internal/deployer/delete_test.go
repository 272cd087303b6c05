package deployer_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

func TestOrphansAreDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("stays", nil), w.configMap("goes", nil), w.configMap("sticks", nil)))
	w.mustSucceed(item)
	w.patch(configMaps, "sticks", `{"metadata":{"finalizers":["example.org/hold"]}}`)

	w.setConfig(item, config(w.configMap("stays", nil)))
	result := w.reconcile(item)
	w.mustWaitFor(result, "ConfigMap "+w.namespace+"/sticks", "being deleted since", "example.org/hold")
	if diff := cmp.Diff([]string{"ConfigMap stays", "ConfigMap sticks"}, w.managed(item)); diff != "" {
		t.Errorf("managed while waiting: -want +got:\n%s", diff)
	}
	w.patch(configMaps, "sticks", `{"metadata":{"finalizers":null}}`)
	w.mustSucceed(item)
	if diff := cmp.Diff([]string{"ConfigMap stays"}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
	if w.get(configMaps, "goes") != nil || w.get(configMaps, "sticks") != nil || w.get(configMaps, "stays") == nil {
		t.Error("expected the orphans, and only them, to be gone")
	}
}

func TestReplacedObjectIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	if err := w.objects(configMaps).Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	other := &unstructured.Unstructured{Object: w.configMap("a", object{"owner": "somebody"})}
	if _, err := w.objects(configMaps).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if result := w.delete(item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.get(configMaps, "a") == nil {
		t.Error("an object that somebody else created under the name was deleted")
	}
}

func TestDeleteWaitsForFinalizersAndOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	inner := object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "ClusterRole", "metadata": object{"name": w.namespace}}
	item := w.item(config(w.configMap("held", nil), inner))
	w.mustSucceed(item)
	w.patch(configMaps, "held", `{"metadata":{"finalizers":["example.org/hold"]}}`)
	w.requests.take()
	w.mustWaitFor(w.delete(item), "ConfigMap "+w.namespace+"/held", "example.org/hold")
	for _, r := range w.requests.take() {
		if strings.Contains(r, "clusterroles") {
			t.Errorf("a cluster-scoped object was touched before the namespaced ones were gone: %s", r)
		}
	}
	w.patch(configMaps, "held", `{"metadata":{"finalizers":null}}`)
	if result := w.delete(item); result.Succeeded == nil {
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
	if result := w.plugin.Delete(t.Context(), sdktest.Call{DeployItem: item}); result.Succeeded == nil {
		t.Errorf("expected success even without a target, but found: %s", result)
	}
	if got := w.requests.take(); len(got) > 0 {
		t.Errorf("expected no request, but found %v", got)
	}
}

func TestObjectsOfNoDeletionGroupStay(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("a", nil)))
	w.mustSucceed(item)
	w.setConfig(item, with(config(), "deletionGroups", []any{object{"predefinedResourceGroup": object{"type": "empty"}}}))
	result := w.delete(item)
	if result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.get(configMaps, "a") == nil {
		t.Error("the object must stay")
	}
	if got := eventsOf(result); len(got) != 1 || !strings.Contains(got[0], "LeftOnTarget: ConfigMap "+w.namespace+"/a stays on the target") {
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
			w.setConfig(item, with(config(), c.key, c.value))
			result := w.plugin.DeleteUntilDone(t.Context(), sdktest.Call{DeployItem: item, Target: w.target})
			if c.want != "" {
				w.mustFail(result, configurationProblem, c.want)
			} else if result.Succeeded == nil {
				t.Errorf("%s: expected success, but found: %s", c.reason, result)
			}
			if (w.get(configMaps, "a") != nil) != (c.want != "") {
				t.Errorf("%s: the object is there: %t", c.reason, c.want == "")
			}
		})
	}
}

func TestNeverCreatedObjectOfSomebodyElseIsNotDeleted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := &unstructured.Unstructured{Object: w.configMap("foreign", nil)}
	if _, err := w.objects(configMaps).Create(t.Context(), other, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	item := w.item(config(w.configMap("foreign", nil)))
	w.requests.failWith(func(r *http.Request) error {
		if r.Method == http.MethodPost {
			return errors.New("cut off")
		}
		return nil
	})
	if result := w.reconcile(item); result.Failed == nil {
		t.Fatalf("expected a failure, but found: %s", result)
	}
	w.requests.failWith(nil)
	if result := w.delete(item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.get(configMaps, "foreign") == nil {
		t.Error("an object that the item never touched was deleted")
	}
}

func TestNamespaceIsDeletedAfterItsObjects(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	name := w.namespace + "-inner"
	inner := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "a", "namespace": name}}
	item := w.item(config(inner, object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": name}}))
	w.mustSucceed(item)
	// Without a controller the namespace never goes, and to delete it again is a conflict.
	for range 2 {
		w.mustWaitFor(w.delete(item), "the deletion of Namespace "+name, "being deleted since")
	}
	if diff := cmp.Diff([]string{"Namespace " + name}, w.managed(item)); diff != "" {
		t.Errorf("managed: -want +got:\n%s", diff)
	}
}

func TestObjectsOfAKindThatIsGoneAreGone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.custom("three.example.org", "Relic", "r"), crd("three.example.org", "Relic")))
	w.mustSucceed(item)
	if err := w.objects(crds).Delete(t.Context(), "relics.three.example.org", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	err := wait.PollUntilContextTimeout(t.Context(), 50*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		_, err := w.objects(crds).Get(ctx, "relics.three.example.org", metav1.GetOptions{})
		return apierrors.IsNotFound(err), nil
	})
	if err != nil {
		t.Fatalf("wait for the definition to be gone: %v", err)
	}
	deleted := w.plugin.DeleteUntilDone(t.Context(), sdktest.Call{DeployItem: item, Target: w.target})
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
	if result := w.delete(item); result.Succeeded == nil {
		t.Fatalf("expected the deletion to succeed, but found: %s", result)
	}
	if w.get(configMaps, "a") == nil {
		t.Error("an object with the policy keep was deleted")
	}
}
