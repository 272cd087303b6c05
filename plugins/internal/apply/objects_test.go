package apply_test

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// The builders of objects and manifests.

type fields = map[string]any

var (
	configMaps, secrets, services = plugintest.ConfigMaps, plugintest.Secrets, plugintest.Services
	deployments, jobs             = plugintest.Deployments, plugintest.Jobs
	namespaces                    = plugintest.Namespaces
	claims                        = plugintest.Resource{Version: "v1", Resource: "persistentvolumeclaims"}
)

const (
	byUpdate, byPatch    = managedresource.UpdateStrategyUpdate, managedresource.UpdateStrategyPatch
	byMerge, byOverwrite = managedresource.UpdateStrategyMerge, managedresource.UpdateStrategyMergeOverwrite
	byApply              = managedresource.UpdateStrategyApply
)

// edit returns a copy of an object after a JSON merge patch in YAML.
func edit(o fields, patch string) fields { return objects.Patched(o, plugintest.Fields(patch)) }

func manifest(o fields, settings ...func(*desired.Manifest)) desired.Manifest {
	m := desired.Manifest{Manifest: object.Manifest{Object: &unstructured.Unstructured{Object: o}}}
	for _, set := range settings {
		set(&m)
	}
	return m
}

func strategy(s managedresource.UpdateStrategy) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Strategy = s }
}

func policy(p managedresource.Policy) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.Policy = p }
}

func recreate(m *desired.Manifest) { m.Recreate = true }

func force(m *desired.Manifest) { m.Force = true }

func patchAfter(patch string) func(*desired.Manifest) {
	return func(m *desired.Manifest) { m.PatchAfterDeployment = plugintest.Fields(patch) }
}

// object reads an object of the namespace in YAML.
func (w *world) object(apiVersion, kind, name, more string) fields {
	return objects.Patched(fields{
		"apiVersion": apiVersion, "kind": kind, "metadata": fields{"name": name, "namespace": w.Namespace},
	}, plugintest.Fields(more))
}

func (w *world) job(name, image string) fields {
	return w.object("batch/v1", "Job", name,
		`spec: {template: {spec: {restartPolicy: Never, containers: [{name: main, image: "`+image+`"}]}}}`)
}

// web is a Deployment with the value of a label in its selector, which is immutable.
func (w *world) web(value string) fields {
	return edit(w.Deployment("web", 1), `spec: {selector: {matchLabels: {app: `+value+`}},
		template: {metadata: {labels: {app: `+value+`}}}}`)
}

// withEnv returns a Deployment with the variables of its container.
func withEnv(o fields, variables string) fields {
	return edit(o, `spec: {template: {spec: {containers: [{name: main, image: "image:1", env: [`+variables+`]}]}}}`)
}

// envOf returns the variables of the container of a Deployment.
func envOf(o *unstructured.Unstructured) any { return containerOf(o)["env"] }

func containerOf(o *unstructured.Unstructured) fields {
	return object.Maps(o.Object, "spec", "template", "spec", "containers")[0]
}

func (w *world) scaler(name string) fields {
	return w.object("autoscaling/v2", "HorizontalPodAutoscaler", name, `spec: {minReplicas: 2, maxReplicas: 9,
		scaleTargetRef: {apiVersion: apps/v1, kind: Deployment, name: `+name+`}}`)
}
