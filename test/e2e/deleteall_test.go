package e2e

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestEverythingIsDeletedAtOnce: the needs of a deletion are there until the item is deleted, in whatever order all of
// it is deleted; then nothing of it is left.
func TestEverythingIsDeletedAtOnce(t *testing.T) {
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	object := configMap(newNamespace(t), "deployed", "x")
	item := manifestItem(namespace, "item", "my-target", object)
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Standalone: true})
	create(t, item)
	waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == succeeded
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
