package deployer_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestStages applies a kind and a namespace with what is in them, written in the wrong order.
func TestStages(t *testing.T) {
	t.Parallel()
	for _, strategy := range []string{"update", "apply"} {
		t.Run(strategy, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			inner, group := w.Namespace+"-inner", w.Namespace+".example.org"
			thing := w.custom("Thing", "t")
			setting := w.configMap("a", nil)
			for _, o := range []object{thing, setting} {
				o["metadata"].(object)["namespace"] = inner
			}
			namespace := object{"apiVersion": "v1", "kind": "Namespace", "metadata": object{"name": inner}}
			item := w.item(with(config(thing, setting, namespace, w.crd("Thing")), "updateStrategy", strategy))
			w.mustSucceed(item)

			var stages []string
			for _, write := range w.Requests.Writes() {
				switch {
				case strings.Contains(write, "customresourcedefinitions"):
					stages = append(stages, "kinds")
				case strings.Contains(write, "/namespaces/"+inner+"/"):
					stages = append(stages, "content")
				default:
					stages = append(stages, "namespaces")
				}
			}
			if diff := cmp.Diff([]string{"kinds", "namespaces", "content"}, slices.Compact(stages)); diff != "" {
				t.Errorf("stages: -want +got:\n%s", diff)
			}
			things := schema.GroupVersionResource{Group: group, Version: "v1", Resource: "things"}
			w.Namespace = inner
			if w.Get(things, "t") == nil || w.Get(configMaps, "a") == nil {
				t.Error("expected the objects in the namespace to be there")
			}
		})
	}
}

// TestAllErrorsAtOnce: each object that cannot be applied is named with its place and its reason, and the others are there.
func TestAllErrorsAtOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	lost := w.configMap("lost", nil)
	lost["metadata"].(object)["namespace"] = w.Namespace + "-missing"
	item := w.item(config(
		w.configMap("fine", nil), w.configMap("Bad_Name", nil), lost, w.custom("Ghost", "g"),
		w.configMap("too", object{"number": 7}), w.configMap("good", nil),
	))
	w.MustFail(w.Do(plugintest.Reconcile, item), plugintest.ConfigurationProblem,
		"manifests[1].manifest: apply ConfigMap "+w.Namespace+"/Bad_Name",
		"manifests[2].manifest: apply ConfigMap "+w.Namespace+"-missing/lost", "namespace "+w.Namespace+"-missing does not exist",
		"manifests[3].manifest: apply Ghost "+w.Namespace+"/g", "serves no kind Ghost in "+w.group()+"/v1",
		"manifests[4].manifest: apply ConfigMap "+w.Namespace+"/too",
	)
	if w.Get(configMaps, "fine") == nil || w.Get(configMaps, "good") == nil {
		t.Error("expected the other objects to be there")
	}
	w.mustDelete(item)
}

// TestSteps: the progress of a job tells what it does, one step after the other.
func TestSteps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(config(w.configMap("orphan", nil)))
	w.mustSucceed(item)
	w.SetConfig(item, with(config(w.deployment("web", "nginx")), "exports", []any{export("x", ".data.x", w.Namespace, "later")}))

	var steps []string
	note := func() {
		t.Helper()
		for _, m := range w.Do(plugintest.Reconcile, item).Messages {
			if m.Progress != nil {
				steps = append(steps, m.Progress.Step)
			}
		}
	}
	note()
	w.ready("web")
	note()
	// A look that finds everything applied says nothing of it: what is waited for is to be seen.
	want := []string{"Apply", "CleanUp", "Readiness", "Export"}
	if diff := cmp.Diff(want, slices.Compact(steps)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDefinitionWithTakenNames: nothing but another manifest helps, so the job does not wait until its time is up.
func TestDefinitionWithTakenNames(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	group := w.Namespace + ".example.org"
	w.mustSucceed(w.item(config(w.crd("Rose"))))
	other := w.crd("Rose")
	other["metadata"] = object{"name": "flowers." + group}
	spec := other["spec"].(object)
	spec["names"] = object{"kind": "Rose", "plural": "flowers", "singular": "flower", "listKind": "FlowerList"}
	item := w.item(config(other))
	item.Name = "other"
	result := w.UntilDone(plugintest.Reconcile, item)
	w.MustFail(result, []landscaper.ErrorCode{landscaper.ErrorNoRetry}, "NamesNotAccepted", "flowers."+group, `"Rose" is already in use`)
}
