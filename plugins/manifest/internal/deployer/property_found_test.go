package deployer_test

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// What the property test has found, one by one.

// TestPatchThatEmptiesAMap removes the only field of a map after the deployment. Whether the API server then leaves the map out or keeps an
// empty one, there is nothing to do the next time.
func TestPatchThatEmptiesAMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(crds, w.crd(kindRose))
	w.waitUntilServed()
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		for _, policy := range []string{"manage", "immutable"} {
			t.Run(strategy+" "+policy, func(t *testing.T) {
				w := w.in(t)
				rose := w.custom(kindRose, "a")
				item := w.itemOf("item", with(configOf(
					entry(w.configMap("a", object{"once": "x"}), object{"policy": policy, "patchAfterDeployment": object{"data": object{"once": nil}}}),
					entry(rose, object{"policy": policy, "patchAfterDeployment": object{"spec": object{"size": nil}}}),
				), "updateStrategy", strategy))
				w.mustSucceed(item)
				w.Requests.Take()
				plugintest.NewJob(item)
				if got := w.mustSucceed(item).Conditions; len(got) > 0 {
					t.Errorf("a second job without a change has found a drift: %v", got)
				}
				if got := w.Requests.Writes(); len(got) > 0 {
					t.Errorf("a second job without a change wrote %v", got)
				}
				w.Patch(configMaps, "a", `{"metadata":{"labels":null}}`)
				w.Patch(w.roses(), "a", `{"metadata":{"labels":null}}`)
				w.mustSucceed(item)
				w.Requests.Take()
				w.mustSucceed(item)
				if got := w.Requests.Writes(); len(got) > 0 {
					t.Errorf("a job after a repair wrote %v", got)
				}
				w.mustDelete(item)
			})
		}
	}
}

// TestDriftOfAPatchedField: somebody gives a field that patchAfterDeployment has changed the value of the manifest again.
func TestDriftOfAPatchedField(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			w := w.in(t)
			item := w.itemOf("item", with(configOf(entry(w.configMap("a", object{"state": "new"}),
				object{"patchAfterDeployment": object{"data": object{"state": "deployed"}}})), "updateStrategy", strategy))
			w.mustSucceed(item)
			w.Patch(configMaps, "a", `{"data":{"state":"new"}}`)
			plugintest.NewJob(item)
			found := false
			for _, c := range w.mustSucceed(item).Conditions {
				found = found || c.Status == landscaper.ConditionTrue
			}
			if !found {
				t.Error("expected the job to say that it has repaired something")
			}
			w.mustDelete(item)
		})
	}
}

// TestApplyToAnUntrackedObject: an object that somebody has created without any field has no managedFields, and gets none from writes other
// than server-side apply. A deploy item that has written it does not conflict with itself, nor with another one, when it begins to apply.
func TestApplyToAnUntrackedObject(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	configOfSize := func(w *world, size, strategy string) object {
		return with(configOf(entry(w.configMap("a", object{"size": size}), object{"policy": "manage"})), "updateStrategy", strategy)
	}
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite"} {
		t.Run(strategy, func(t *testing.T) {
			w := w.in(t)
			w.Create(configMaps, w.configMap("a", nil))
			if got := w.MustGet(configMaps, "a").GetManagedFields(); len(got) > 0 {
				t.Fatalf("expected an object whose fields are not tracked, but found %v", got)
			}
			other := w.itemOf("other", configOfSize(w, "1", strategy))
			w.mustSucceed(other)
			item := w.itemOf("item", configOfSize(w, "2", "apply"))
			w.mustSucceed(item)
			if got, _, _ := unstructured.NestedString(w.MustGet(configMaps, "a").Object, "data", "size"); got != "2" {
				t.Errorf("expected the value of the item that came last, but found %q", got)
			}
			w.Requests.Take()
			plugintest.NewJob(item)
			w.mustSucceed(item)
			if got := w.Requests.Writes(); len(got) > 0 {
				t.Errorf("a second job without a change wrote %v", got)
			}
			w.mustDelete(item)
		})
	}
	t.Run("of others", func(t *testing.T) {
		w := w.in(t)
		w.Create(configMaps, w.configMap("a", nil))
		w.Patch(configMaps, "a", `{"data":{"size":"1"}}`)
		w.MustFail(w.call(w.itemOf("item", configOfSize(w, "2", "apply"))), []landscaper.ErrorCode{landscaper.ErrorConfigurationProblem}, "before-first-apply")
	})
}

// TestServerSideApplyDropsAMap is about the API server alone, and why the game's manifests always have the map: who has applied a map that has no
// schema, and does not apply it any more, takes the fields of others in it along. Should it end one day, this test says so.
func TestServerSideApplyDropsAMap(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Create(crds, w.crd(kindRose))
	w.waitUntilServed()
	roses := w.Objects(w.roses())
	apply := func(spec object) {
		rose := object{"apiVersion": w.group() + "/v1", "kind": kindRose, "metadata": object{"name": "a", "namespace": w.Namespace}}
		if spec != nil {
			rose["spec"] = spec
		}
		if _, err := roses.Apply(t.Context(), "a", &unstructured.Unstructured{Object: rose}, metav1.ApplyOptions{FieldManager: "applier"}); err != nil {
			t.Fatal(err)
		}
	}
	apply(object{"a": "1"})
	w.Patch(w.roses(), "a", `{"spec":{"b":"1"}}`)
	apply(nil)
	if spec, ok := w.MustGet(w.roses(), "a").Object["spec"]; ok {
		t.Errorf("expected the API server to drop the map, but found %v", spec)
	}
}
