package e2e

import (
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestDefinitionIsRemoved: somebody removes the definition of a kind whose resources an item has deployed. They go with it.
func TestDefinitionIsRemoved(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	for kind, c := range map[string]struct {
		reason string
		own    bool // the item brings the definition itself
		then   func(t *testing.T, item *v1alpha1.DeployItem, definition, resource map[string]any)
	}{
		"Aster": {
			reason: "a job says that the kind is not served, and goes on when it is again",
			then: func(t *testing.T, item *v1alpha1.DeployItem, definition, resource map[string]any) {
				job := setJob(t, item)
				mustMention(t, "the error", waitLastError(t, item, "serves no kind Aster").Status.LastError.Message, "Aster", resourceGroup+"/v1")
				put(t, definition)
				mustSucceedWith(t, item, job, resource)
				mustMention(t, "Drifted", conditionOf(read(t, item), "Drifted").Message, "was missing")
			},
		},
		"Daisy": {
			reason: "an update that drops the resource finds that it is gone",
			then: func(t *testing.T, item *v1alpha1.DeployItem, _, _ map[string]any) {
				item = setConfig(t, item, configWith(t, nil, configMapWith(item.Namespace, "another", nil)))
				carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
			},
		},
		"Iris": {
			reason: "so does a deletion",
			then: func(t *testing.T, item *v1alpha1.DeployItem, _, _ map[string]any) {
				deleteObject(t, item)
				setJob(t, item)
				waitGone(t, item)
			},
		},
		"Lily": {
			reason: "a job of an item that brings the definition brings both again",
			own:    true,
			then: func(t *testing.T, item *v1alpha1.DeployItem, definition, resource map[string]any) {
				mustSucceedWith(t, item, setJob(t, item), resource)
				if live(t, definition) == nil {
					t.Error("the definition is not there")
				}
			},
		},
	} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			t.Log(c.reason)
			namespace := newNamespace(t)
			createTarget(t, namespace, "my-target")
			definition, resource := definitionOf(kind), resourceOf(kind, namespace, "a")
			manifests := []map[string]any{resource, definition}
			if !c.own {
				put(t, definition)
				waitEstablished(t, kind)
				manifests = manifests[:1]
			}
			item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, manifests...)), "my-target")
			item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
			destroy(t, definition)
			waitNotThere(t, definition)
			c.then(t, item, definition, resource)
		})
	}
}

// TestDefinitionGoesWithAResourceThatStays: a resource with a finalizer keeps a definition that somebody has removed.
func TestDefinitionGoesWithAResourceThatStays(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	definition, resource := definitionOf("Tulip"), resourceOf("Tulip", namespace, "held")
	config := configWith(t, nil, definition, resource)
	item := withTarget(newItem(namespace, "item", manifestType, config), "my-target")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)
	change(t, resource, `{"metadata":{"finalizers":["example.org/hold"]}}`)
	destroy(t, definition)

	t.Log("a job waits until both are gone before it makes them again")
	job := setJob(t, item)
	waitReconciling(t, item, "which is being deleted, to be gone before it is created again")
	change(t, resource, `{"metadata":{"finalizers":null}}`)
	mustSucceedWith(t, item, job, resource)

	t.Log("a deletion says what keeps them")
	change(t, resource, `{"metadata":{"finalizers":["example.org/hold"]}}`)
	destroy(t, definition)
	deleteObject(t, item)
	setJob(t, item)
	mustMention(t, "Reconciling", conditionOf(waitReconciling(t, item, "example.org/hold"), "Reconciling").Message, "Tulip "+namespace+"/held")
	change(t, resource, `{"metadata":{"finalizers":null}}`)
	waitGone(t, item)
	waitNotThere(t, definition)
}
