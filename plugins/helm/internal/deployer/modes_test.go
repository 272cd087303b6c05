package deployer_test

import (
	"fmt"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
)

// Rules of both modes, and those about the change from one to the other.

// TestWithoutRelease takes a chart through its life without a release.
func TestWithoutRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	item := w.item(w.config(chart("plain"), object{"greeting": "one"}, withoutRelease))
	w.MustSucceed(item)
	w.mustGreet("one")
	w.mustHave()
	label := w.Get(configMaps, "shop-plain-greeting").GetLabels()["helm.deployer.landscaper.gardener.cloud/deployitem"]
	if label != "item" {
		t.Errorf("expected Landscaper's label with the name of the item, but found %q", label)
	}
	w.mustDoNothing(item)

	short := chart("plain", charts.Without("templates/settings.yaml"))
	w.mustDeploy(item, w.config(short, object{"greeting": "two"}, withoutRelease))
	w.mustGreet("two")
	w.mustHold("shop-plain-greeting")
	w.MustDelete(item)
	w.mustHold()
}

// TestNamespacesOfObjects: an object that names no namespace is in that of the release, if its kind has namespaces;
// lists are their items, and what renders to nothing is nothing.
// Rule (helm.md#the-helm-deployer): An object without a namespace is in the namespace of the release.
// Rule (helm.md#unchanged-releases-and-drift): A job without work leaves the provider status as it was.
func TestNamespacesOfObjects(t *testing.T) {
	t.Parallel()
	bothModes(t, func(w *world) {
		other := newWorld(w)
		more := charts.File("templates/more.yaml", `# nothing but a comment
---
{{- if .Values.nothing }}
nothing: at all
{{- end }}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: {{ .Release.Namespace }}}
---
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: ConfigMap, metadata: {name: own}}
- {apiVersion: v1, kind: ConfigMap, metadata: {name: elsewhere, namespace: `+other.Namespace+`}}
`)
		notes := charts.File("templates/NOTES.txt", "{{ .Release.Name }}: no object")
		item := w.item(w.config(chart("plain", more, notes), nil))
		w.MustSucceed(item)
		w.mustHold("own", "shop-plain-greeting", "shop-plain-settings")
		w.at(other.Namespace).mustHold("elsewhere")
		w.DeleteAfter(clusterRoles, w.Namespace)
		w.MustGet(clusterRoles, w.Namespace)
		w.mustManage(item, "ClusterRole "+w.Namespace, "ConfigMap elsewhere", "ConfigMap own",
			"ConfigMap shop-plain-greeting", "ConfigMap shop-plain-settings")
		w.mustDoNothing(item)
		w.MustDelete(item)
		w.mustHold()
		w.at(other.Namespace).mustHold()
		if w.Get(clusterRoles, w.Namespace) != nil {
			w.Error("after the deletion there is still the cluster role")
		}
	})
}

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
