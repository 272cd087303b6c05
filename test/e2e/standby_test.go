package e2e

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestStandby: a plugin whose deploy items are all gone ends, and carries out the next one as if it had run.
func TestStandby(t *testing.T) {
	t.Parallel()
	namespace := newNamespace(t)
	createTarget(t, namespace, "cluster")
	create(t, manifestItem(namespace, "stays", "cluster", configMap(namespace, "deployed", "a")))
	// Other tests have items of all types in the cluster.
	host := startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "manifest", "mock"), Standalone: true,
		Config: writeConfig(t, anyConfig+"namespaces: ["+namespace+"]\n"),
	})
	deploys := func(name string) *v1alpha1.DeployItem {
		item := newItem(namespace, name, mockType, mockSucceeds)
		create(t, item)
		return waitFor(t, item, "deployed", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == succeeded })
	}
	deleteItem(t, deploys("first"))
	await.For(t.Context(), t, 5*time.Minute, "the plugin mock to end", func(context.Context) (string, error) {
		children, err := host.Children()
		if len(children["manifest"]) != 1 || len(children["mock"]) != 0 {
			return fmt.Sprintf("children %v", children), err
		}
		return "", nil
	})
	if err := host.Ready(t.Context()); err != nil {
		t.Errorf("expected the host to stay ready, but found %v", err)
	}
	deploys("second")
}
