package deployer_test

import (
	"fmt"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// scaled is a chart of a Deployment with replicas, a note and, if it is asked for, an autoscaler.
func scaled() object {
	return chart("plain",
		charts.File("templates/web.yaml", `apiVersion: apps/v1
kind: Deployment
metadata: {name: web, annotations: {note: {{ .Values.note | default "none" | quote }}, theirs: "none"}}
spec:
  {{ if .Values.replicas }}
  replicas: {{ .Values.replicas }}
  {{ end }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec: {containers: [{name: main, image: "image:1"}]}
`),
		charts.File("templates/scaler.yaml", `{{ if .Values.scaled }}
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: web}
spec:
  minReplicas: 3
  maxReplicas: 5
  scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: web}
{{ end }}`))
}

// web returns the replicas and the annotations of the Deployment.
func (w *world) web() string {
	w.Helper()
	o := w.MustGet(plugintest.Deployments, "web")
	replicas := o.Object["spec"].(object)["replicas"]
	return fmt.Sprintf("%v %s %s", replicas, o.GetAnnotations()["note"], o.GetAnnotations()["theirs"])
}

// TestFieldsOfOthers: the replicas of a Deployment with an autoscaler and the listed fields are neither compared nor
// written.
// Rule (helm.md#unchanged-releases-and-drift): Upgrades of releases leave fields of other clients.
func TestFieldsOfOthers(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		config := func(values object) object {
			return w.config(scaled(), values, object{"readinessChecks": object{"disableDefault": true}}, object{
				"ignoreDifferences": []any{object{
					"kind": "Deployment", "name": "web", "jsonPointers": []any{"/metadata/annotations/theirs"},
				}},
			})
		}
		item := w.item(config(object{"scaled": true, "replicas": 1}))
		w.MustSucceed(item)
		w.Patch(plugintest.Deployments, "web", `{"spec":{"replicas":3}}`, "scale")
		w.Patch(plugintest.Deployments, "web", `{"metadata":{"annotations":{"theirs":"yes"}}}`)

		w.mustNotRepair(item)
		w.mustDeploy(item, config(object{"scaled": true, "replicas": 2, "note": "changed"}))
		w.mustBe("3 changed yes")
		w.mustDeploy(item, config(object{"scaled": true}))
		w.mustBe("3 none yes")
		w.mustNotRepair(item)
		w.mustHave("1 superseded", "2 superseded", "3 deployed")
	})
}

func (w *world) mustBe(want string) {
	w.Helper()
	if found := w.web(); found != want {
		w.Errorf("expected %s, but found %s", want, found)
	}
}

// mustNotRepair expects a job that finds nothing to do.
func (w *world) mustNotRepair(item *landscaper.DeployItem) {
	w.Helper()
	before := w.web()
	w.mustChange(item)
	plugintest.NewJob(item)
	result := w.MustSucceed(item)
	for _, c := range result.Conditions {
		if c.Status == landscaper.ConditionTrue {
			w.Errorf("expected no drift, but found %v", c)
		}
	}
	w.mustBe(before)
}

// TestRefusedRepair: what the target refuses to repair is drift with the reason, and neither a revision nor a failure.
// Rule (helm.md#unchanged-releases-and-drift): A refused repair makes no revision of a release.
func TestRefusedRepair(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), nil))
	w.MustSucceed(item)
	w.Patch(configMaps, "shop-plain-greeting", `{"data":{"greeting":"boo"},"immutable":true}`)
	w.mustChange(item, "keep ConfigMap %s/shop-plain-greeting")
	for range 2 {
		plugintest.NewJob(item)
		w.mustTellDrift(w.MustSucceed(item), "ConfigMap "+w.Namespace+"/shop-plain-greeting: data.greeting",
			"refuses the repair", "immutable")
		w.mustHave("1 deployed")
	}
	w.setConfig(item, w.config(chart("plain"), object{"greeting": "again"}))
	w.MustFail(w.Finish(plugintest.Reconcile, item), configProblem, "immutable")
}
