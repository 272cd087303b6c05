package e2e

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestEverythingIsDeletedAtOnce: what an item needs for its deletion is there until it is deleted, in whatever order all
// of it is deleted; then nothing of it is left.
func TestEverythingIsDeletedAtOnce(t *testing.T) {
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	object := configMapWith(newNamespace(t), "deployed", map[string]any{"a": "1"})
	item := withTarget(newItem(namespace, "item", manifestType, configWith(t, nil, object)), "my-target")
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Standalone: true})
	create(t, item)
	waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseSucceeded
	})
	deployed := &unstructured.Unstructured{Object: object}
	if live(t, object) == nil {
		t.Fatal("nothing was deployed")
	}
	kinds := "secrets,targets.landscaper.gardener.cloud,contexts.landscaper.gardener.cloud,deployitems"
	kubectl(t, "delete", "--all", "--wait=false", "-n", namespace, kinds).expect(t, 0, "deleted")
	eventually(t, "everything to be gone", func(context.Context) (string, error) {
		left := kubectl(t, "get", "-n", namespace, kinds, "-o", "name").stdout
		if live(t, object) != nil {
			left += deployed.GetName()
		}
		return left, nil
	})
}
