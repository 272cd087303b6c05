package apply_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

var autoscalers = plugintest.Resource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}

func ignoring(pointers ...ignore.Pointer) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Ignored = pointers }
}

// stateOf returns the replicas, the image, and an annotation of another client.
func (w *world) stateOf(name string) [3]string {
	o := w.MustGet(deployments, name)
	containers, _, _ := unstructured.NestedSlice(o.Object, "spec", "template", "spec", "containers")
	image, _ := containers[0].(fields)["image"].(string)
	return [3]string{fmt.Sprint(replicasIn(o.Object)), image, o.GetAnnotations()["theirs"]}
}

// TestIgnoredFields: fields that are listed are written when the object is created, and neither compared nor written
// later.
// Rule (manifest.md#fields-of-other-clients): Listed fields are written at the creation of an object, and neither
// compared nor written later.
func TestIgnoredFields(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	listed := ignoring(ignore.Replicas, ignore.Pointer{"spec", "template", "spec", "containers", "0", "image"},
		ignore.Pointer{"metadata", "annotations", "theirs"})
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			wanted := w.Deployment(name, 1)
			w.mustRun(manifest(wanted, strategy(s), listed))
			if found := w.stateOf(name); found != [3]string{"1", "image:1", ""} {
				t.Fatalf("expected the object to be created as its manifest says, but found %v", found)
			}

			document := `{"metadata":{"annotations":{"theirs":"yes"}},"spec":{"replicas":3,"template":{"spec":{"containers":[
				{"name":"main","image":"image:2"}]}}}}`
			_, err := w.Objects(deployments).Patch(w.Context(), name, types.StrategicMergePatchType, []byte(document),
				metav1.PatchOptions{FieldManager: "another"})
			if err != nil {
				t.Fatal(err)
			}
			theirs := [3]string{"3", "image:2", "yes"}
			w.Requests.Take()
			if result := w.mustRun(manifest(wanted, strategy(s), listed)); len(result.Drift) > 0 || len(w.Requests.Writes()) > 0 {
				t.Errorf("expected nothing to be done, but found %+v, %v", result.Drift, w.Requests.Writes())
			}
			wanted["spec"].(fields)["replicas"], wanted["spec"].(fields)["minReadySeconds"] = int64(5), int64(7)
			w.mustRun(manifest(wanted, strategy(s), listed))
			if found := w.stateOf(name); found != theirs {
				t.Errorf("expected the listed fields to stay %v, but found %v", theirs, found)
			}
			ready, _, _ := unstructured.NestedInt64(w.MustGet(deployments, name).Object, "spec", "minReadySeconds")
			if s != managedresource.UpdateStrategyMerge && ready != 7 {
				t.Errorf("expected the change of the manifest, but found %d", ready)
			}
			if changes := w.diff(manifest(wanted, strategy(s), listed)); len(changes) > 0 {
				t.Errorf("expected no change, but found %+v", changes)
			}
		})
	}
}

// TestScaledReplicas: the replicas of what an autoscaler on the target scales stay, also if the manifest does not name
// them. They are the manifest's again when the autoscaler goes.
// Rule (manifest.md#fields-of-other-clients): The replicas of an autoscaled object stay.
func TestScaledReplicas(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			wanted := w.Deployment(name, 1)
			w.mustRun(manifest(wanted, strategy(s)))
			w.Create(autoscalers, fields{
				"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
				"metadata": fields{"name": name, "namespace": w.Namespace},
				"spec": fields{"minReplicas": int64(3), "maxReplicas": int64(5), "scaleTargetRef": fields{
					"apiVersion": "apps/v1", "kind": "Deployment", "name": name,
				}},
			})
			w.Patch(deployments, name, `{"spec":{"replicas":3}}`, "scale")
			w.mustKeepReplicas(name, "3", manifest(wanted, strategy(s)))
			w.Requests.Take()
			w.mustKeepReplicas(name, "3", manifest(wanted, strategy(s)))
			if writes := w.Requests.Writes(); len(writes) > 0 {
				t.Errorf("expected no write, but found %v", writes)
			}

			changed := copyOf(wanted)
			delete(changed["spec"].(fields), "replicas")
			changed["spec"].(fields)["minReadySeconds"] = int64(7)
			w.mustKeepReplicas(name, "3", manifest(changed, strategy(s)))
			w.mustKeepReplicas(name, "3", manifest(wanted, strategy(s)))
			w.Delete(autoscalers, name)
			if s != managedresource.UpdateStrategyMerge && s != managedresource.UpdateStrategyApply {
				w.mustRun(manifest(wanted, strategy(s)))
				if found := w.stateOf(name)[0]; found != "1" {
					t.Errorf("expected the replicas of the manifest, but found %v", found)
				}
			}
		})
	}
}

func (w *world) mustKeepReplicas(name, want string, all ...desired.Manifest) {
	w.Helper()
	if result := w.mustRun(all...); len(result.Drift) > 0 {
		w.Errorf("expected no drift, but found %+v", result.Drift)
	}
	if found := w.stateOf(name)[0]; found != want {
		w.Errorf("expected %s replicas, but found %s", want, found)
	}
}

// TestInjectedBundle: a CA bundle that was put in over a placeholder stays, without a request more.
// Rule (manifest.md#fields-of-other-clients): An injected CA bundle stays over an empty one and a placeholder.
func TestInjectedBundle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range managedresource.UpdateStrategies() {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := w.Namespace + "-" + lower(s)
			w.DeleteAfter(plugintest.Webhooks, name)
			wanted := w.WebhookConfiguration(name, "none", "DELETE", services)
			config := wanted["webhooks"].([]any)[0].(fields)["clientConfig"].(fields)
			config["caBundle"] = "Cg=="
			w.mustRun(manifest(wanted, strategy(s)))
			injected := base64.StdEncoding.EncodeToString(plugintest.Config().CAData)
			document := `[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"` + injected + `"}]`
			_, err := w.Objects(plugintest.Webhooks).Patch(w.Context(), name, types.JSONPatchType, []byte(document),
				metav1.PatchOptions{FieldManager: "injector"})
			if err != nil {
				t.Fatal(err)
			}
			wanted["metadata"].(fields)["labels"] = fields{"changed": "yes"}
			for range 2 {
				w.Requests.Take()
				if result := w.mustRun(manifest(wanted, strategy(s))); len(result.Drift) > 0 {
					t.Errorf("expected no drift, but found %+v", result.Drift)
				}
				found := w.MustGet(plugintest.Webhooks, name)
				hooks, _, _ := unstructured.NestedSlice(found.Object, "webhooks")
				if bundle := hooks[0].(fields)["clientConfig"].(fields)["caBundle"]; bundle != injected || found.GetLabels()["changed"] != "yes" {
					t.Errorf("expected the change and the bundle that was injected, but found %v", found.Object)
				}
			}
			if writes := w.Requests.Writes(); len(writes) > 0 {
				t.Errorf("expected no write, but found %v", writes)
			}
		})
	}
}

// TestIgnoredPartsOfWholes: a listed field of a value that managers only have as a whole stays as well, and what others
// have put into a listed field is not taken over.
// Rule (manifest.md#fields-of-other-clients): A listed part of an atomic value stays with server-side apply; parts of
// others are not taken over.
func TestIgnoredPartsOfWholes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, forced := range map[string]bool{"forced": true, "not-forced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			object := "web-" + name
			wanted := w.Deployment(object, 1)
			template := wanted["spec"].(fields)["template"].(fields)
			template["spec"].(fields)["nodeSelector"] = fields{"zone": "z1", "os": "linux"}
			wanted["metadata"].(fields)["annotations"] = fields{"mine": "yes"}
			now := func(ignored ...ignore.Pointer) desired.Manifest {
				m := manifest(copyOf(wanted), strategy(managedresource.UpdateStrategyApply), ignoring(ignored...))
				m.Force = forced
				return m
			}
			zone, annotations := ignore.Pointer{"spec", "template", "spec", "nodeSelector", "zone"}, ignore.Pointer{"metadata", "annotations"}
			w.mustRun(now(zone, annotations))
			w.Patch(deployments, object, `{"metadata":{"annotations":{"theirs":"yes"}},"spec":{"template":{"spec":{"nodeSelector":{"zone":"z2"}}}}}`)
			wanted["spec"].(fields)["minReadySeconds"] = int64(7)
			w.mustRun(now(zone, annotations))
			wanted["spec"].(fields)["minReadySeconds"] = int64(8)
			w.mustRun(now(zone))
			live := w.MustGet(deployments, object)
			selector, _, _ := nestedMap(live, "spec", "template", "spec", "nodeSelector")
			if diff := cmp.Diff(fields{"zone": "z2", "os": "linux"}, selector); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if found := live.GetAnnotations(); found["mine"] != "yes" || found["theirs"] != "yes" {
				t.Errorf("expected both annotations, but found %v", found)
			}
		})
	}
}

// TestAutoscalerOfTheItem: replicas stay when the item brings the autoscaler, and are the manifest's when it drops it.
// Rule (manifest.md#fields-of-other-clients): Replicas stay for an autoscaler of the item before it scales; one dropped
// by the item does not count.
func TestAutoscalerOfTheItem(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, s := range []managedresource.UpdateStrategy{managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyApply} {
		t.Run(lower(s), func(t *testing.T) {
			t.Parallel()
			w := w.in(t)
			name := "web-" + lower(s)
			fixed, scaled := w.Deployment(name, 6), w.Deployment(name, 6)
			delete(scaled["spec"].(fields), "replicas")
			scaler := fields{
				"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler",
				"metadata": fields{"name": name, "namespace": w.Namespace},
				"spec": fields{"minReplicas": int64(2), "maxReplicas": int64(9), "scaleTargetRef": fields{
					"apiVersion": "apps/v1", "kind": "Deployment", "name": name,
				}},
			}
			w.mustRun(manifest(fixed, strategy(s)))
			w.mustKeepReplicas(name, "6", manifest(scaled, strategy(s)), manifest(scaler, strategy(s)))
			fixed = w.Deployment(name, 3)
			w.mustKeepReplicas(name, "3", manifest(fixed, strategy(s)))
		})
	}
}
