package apply_test

import (
	"encoding/base64"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

var autoscalers = plugintest.Resource{Group: "autoscaling", Version: "v2", Resource: "horizontalpodautoscalers"}

func ignoring(pointers ...ignore.Pointer) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Ignored = pointers }
}

// mustBe checks the replicas of the Deployment "web", its image, and an annotation of another client.
func (w *world) mustBe(want string) {
	w.Helper()
	o := w.MustGet(deployments, "web")
	found := fmt.Sprint(object.Count(o.Object, "spec", "replicas"), " ", containerOf(o)["image"], " ",
		o.GetAnnotations()["theirs"])
	if found != want {
		w.Errorf("expected %q, but found %q", want, found)
	}
}

// TestIgnoredFields: fields that are listed are written when the object is created, and neither compared nor written
// later.
// Rule (manifest.md#fields-of-other-clients): Listed fields are written at the creation of an object, and neither
// compared nor written later.
func TestIgnoredFields(t *testing.T) {
	listed := ignoring(ignore.Replicas, ignore.Pointer{"spec", "template", "spec", "containers", "0", "image"},
		ignore.Pointer{"metadata", "annotations", "theirs"})
	each(t, func(w *world) {
		wanted := w.Deployment("web", 1)
		w.mustRun(manifest(wanted, listed))
		w.mustBe("1 image:1 ")
		w.patchAs("another", deployments, types.StrategicMergePatchType, `{"metadata":{"annotations":{"theirs":"yes"}},
			"spec":{"replicas":3,"template":{"spec":{"containers":[{"name":"main","image":"image:2"}]}}}}`)
		w.mustSettle(manifest(wanted, listed))
		changed := manifest(edit(wanted, "spec: {replicas: 5, minReadySeconds: 7}"), listed)
		w.mustRun(changed)
		w.mustBe("3 image:2 yes")
		ready := object.Count(w.MustGet(deployments, "web").Object, "spec", "minReadySeconds")
		if w.strategy != byMerge && ready != 7 {
			w.Errorf("expected the change of the manifest, but found %d", ready)
		}
		w.mustForeseeNothing(changed)
	})
}

// TestScaledReplicas: the replicas of what an autoscaler on the target scales stay, also if the manifest does not name
// them. They are the manifest's again when the autoscaler goes.
// Rule (manifest.md#fields-of-other-clients): The replicas of an autoscaled object stay.
func TestScaledReplicas(t *testing.T) {
	each(t, func(w *world) {
		wanted := w.Deployment("web", 1)
		w.mustRun(manifest(wanted))
		w.Create(autoscalers, w.scaler("web"))
		w.Patch(deployments, "web", `{"spec":{"replicas":3}}`, "scale")
		w.mustKeepReplicas(3, manifest(wanted))
		w.mustSettle(manifest(wanted))
		w.mustKeepReplicas(3, manifest(edit(wanted, "spec: {replicas: null, minReadySeconds: 7}")))
		w.mustKeepReplicas(3, manifest(wanted))
		w.Delete(autoscalers, "web")
		if w.strategy != byMerge && w.strategy != byApply {
			w.mustRun(manifest(wanted))
			w.mustBe("1 image:1 ")
		}
	})
}

func (w *world) mustKeepReplicas(want int64, all ...desired.Manifest) {
	w.Helper()
	if result := w.mustRun(all...); len(result.Drift) > 0 {
		w.Errorf("expected no drift, but found %+v", result.Drift)
	}
	w.mustBe(fmt.Sprint(want, " image:1 "))
}

// TestAutoscalerOfTheItem: replicas stay when the item brings the autoscaler, and are the manifest's when it drops it.
// Rule (manifest.md#fields-of-other-clients): Replicas stay for an autoscaler of the item before it scales; one dropped
// by the item does not count.
func TestAutoscalerOfTheItem(t *testing.T) {
	each(t, func(w *world) {
		fixed := w.Deployment("web", 6)
		w.mustRun(manifest(fixed))
		w.mustKeepReplicas(6, manifest(edit(fixed, "spec: {replicas: null}")), manifest(w.scaler("web")))
		w.mustKeepReplicas(3, manifest(w.Deployment("web", 3)))
	}, byPatch, byMerge, byOverwrite)
}

// TestInjectedBundle: a CA bundle that was put in over a placeholder stays, without a request more.
// Rule (manifest.md#fields-of-other-clients): An injected CA bundle stays over an empty one and a placeholder.
func TestInjectedBundle(t *testing.T) {
	each(t, func(w *world) {
		name := w.Namespace
		w.DeleteAfter(plugintest.Webhooks, name)
		wanted := w.WebhookConfiguration(name, "none", "DELETE", services)
		object.Child(object.Maps(wanted, "webhooks")[0], "clientConfig")["caBundle"] = "Cg=="
		w.mustRun(manifest(wanted))
		injected := base64.StdEncoding.EncodeToString(plugintest.Config().CAData)
		w.patchNamed(name, "injector", plugintest.Webhooks, types.JSONPatchType,
			`[{"op":"replace","path":"/webhooks/0/clientConfig/caBundle","value":"`+injected+`"}]`)
		changed := manifest(edit(wanted, "metadata: {labels: {changed: 'yes'}}"))
		if result := w.mustRun(changed); len(result.Drift) > 0 {
			w.Errorf("expected no drift, but found %+v", result.Drift)
		}
		w.mustSettle(changed)
		found := w.MustGet(plugintest.Webhooks, name)
		bundle := object.Text(object.Maps(found.Object, "webhooks")[0], "clientConfig", "caBundle")
		if bundle != injected || found.GetLabels()["changed"] != "yes" {
			w.Errorf("expected the change and the bundle that was injected, but found %v", found.Object)
		}
	})
}

// TestIgnoredPartsOfWholes: a listed field of a value that managers only have as a whole stays as well, and what others
// have put into a listed field is not taken over.
// Rule (manifest.md#fields-of-other-clients): A listed part of an atomic value stays with server-side apply; parts of
// others are not taken over.
func TestIgnoredPartsOfWholes(t *testing.T) {
	t.Parallel()
	zone := ignore.Pointer{"spec", "template", "spec", "nodeSelector", "zone"}
	annotations := ignore.Pointer{"metadata", "annotations"}
	for name, forced := range map[string]bool{"forced": true, "not forced": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.strategy = byApply
			now := func(seconds int, ignored ...ignore.Pointer) {
				t.Helper()
				m := manifest(edit(w.Deployment("web", 1), fmt.Sprintf(`{metadata: {annotations: {mine: 'yes'}},
					spec: {minReadySeconds: %d, template: {spec: {nodeSelector: {zone: z1, os: linux}}}}}`, seconds)),
					ignoring(ignored...))
				m.Force = forced
				w.mustRun(m)
			}
			now(0, zone, annotations)
			w.Patch(deployments, "web", `{"metadata":{"annotations":{"theirs":"yes"}},
				"spec":{"template":{"spec":{"nodeSelector":{"zone":"z2"}}}}}`)
			now(7, zone, annotations)
			now(8, zone)
			live := w.MustGet(deployments, "web")
			selector := object.Child(live.Object, "spec", "template", "spec", "nodeSelector")
			if diff := cmp.Diff(fields{"zone": "z2", "os": "linux"}, selector); diff != "" {
				t.Errorf("-want +got:\n%s", diff)
			}
			if found := live.GetAnnotations(); found["mine"] != "yes" || found["theirs"] != "yes" {
				t.Errorf("expected both annotations, but found %v", found)
			}
		})
	}
}
