package e2e

import (
	"context"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestTargetThatHangs: the items of a target that never answers do not keep workers from those of others.
// Rule (host-configuration.md#workers): A silent target does not hold up the items of other targets.
func TestTargetThatHangs(t *testing.T) {
	const hangingItems, healthyItems, workers = 12, 8, 4
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Config: workersConfig(t, workers)})
	namespace := newNamespace(t)
	createTarget(t, namespace, "healthy")
	createSilentTarget(t, namespace, "hanging")
	begin := func(target string, n int) (items []*v1alpha1.DeployItem, jobs []string) {
		for i := range n {
			name := fmt.Sprintf("%s-%02d", target, i)
			item := manifestItem(namespace, name, target, configMap(namespace, name, "x"))
			create(t, item)
			items, jobs = append(items, item), append(jobs, setJob(t, item))
		}
		return items, jobs
	}
	hanging, _ := begin("hanging", hangingItems)
	eventually(t, "as many jobs to be under way as there are workers", func(context.Context) (string, error) {
		busy := 0
		for _, item := range hanging {
			if read(t, item).Status.Phase == v1alpha1.DeployItemPhaseProgressing {
				busy++
			}
		}
		if busy < workers {
			return fmt.Sprintf("%d are", busy), nil
		}
		return "", nil
	})

	healthy, jobs := begin("healthy", healthyItems)
	for i, item := range healthy { // each of those that hang keeps a worker for some seconds before it makes room
		const what = "the items of the healthy target to succeed"
		await.For(t.Context(), t, 4*patience, what, func(context.Context) (string, error) {
			if s := read(t, item).Status; s.JobIDFinished != jobs[i] || s.Phase != succeeded {
				return describe(read(t, item)), nil
			}
			return "", nil
		})
	}
	for _, item := range hanging {
		if item = read(t, item); item.Status.JobIDFinished == item.Status.JobID {
			t.Errorf("an item of the target that hangs is finished: %s", describe(item))
		}
	}
	// So that no other host goes on with them.
	forEach(t, hanging, func(ctx context.Context, item *v1alpha1.DeployItem) error {
		if err := admin.Delete(ctx, item); err != nil {
			return err
		}
		withoutFinalizer := client.RawPatch("application/merge-patch+json", []byte(`{"metadata":{"finalizers":null}}`))
		return client.IgnoreNotFound(admin.Patch(ctx, item, withoutFinalizer))
	})
}

// createSilentTarget creates a Target of a server that takes requests and never answers one.
func createSilentTarget(t *testing.T, namespace, name string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		<-r.Context().Done()
	}))
	t.Cleanup(func() {
		server.CloseClientConnections()
		server.Close()
	})
	config := rest.CopyConfig(controlPlane.Config)
	config.Host = server.URL
	config.CAData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	kubeconfig, err := testenv.InlineKubeconfig(config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := testenv.NewTarget(namespace, name, kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	create(t, target)
}

// workersConfig writes a HostConfiguration with so many workers and returns its path.
func workersConfig(t *testing.T, workers int) string {
	t.Helper()
	return writeConfig(t, fmt.Sprintf("%sworkers: %d\n", anyConfig, workers))
}
