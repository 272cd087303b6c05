package e2e

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// Rule (deploy-items.md#health): A deployed item shows lost and regained health without another job, also if
// the health returns while the host is away.
func TestHealthOfDeployedItem(t *testing.T) {
	options := testenv.HostOptions{PluginDir: pluginDir(t, "manifest"), Standalone: true}
	host := startReadyHost(t, options)
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	item := manifestItem(namespace, "item", "my-target", unreadyDeployment(namespace))
	create(t, item)
	slow := client.ObjectKey{Namespace: namespace, Name: "slow"}
	waitFor(t, item, "waiting for its object", func(i *v1alpha1.DeployItem) bool {
		return strings.Contains(waitsFor(i), "Deployment "+slow.String())
	})
	ready := func(reason string) func(*v1alpha1.DeployItem) bool {
		return func(i *v1alpha1.DeployItem) bool { return conditionOf(i, "Ready").Reason == reason }
	}
	setDeploymentReady(t, slow)
	deployed := waitFor(t, item, "deployed", ready("Succeeded"))

	lose := func() {
		deployment := &appsv1.Deployment{}
		if err := admin.Get(t.Context(), slow, deployment); err != nil {
			t.Fatal(err)
		}
		deployment.Status.AvailableReplicas = 0
		if err := admin.Status().Update(t.Context(), deployment); err != nil {
			t.Fatal(err)
		}
	}
	lose()
	waitFor(t, item, "unhealthy", ready("Unhealthy"))
	setDeploymentReady(t, slow)
	waitFor(t, item, "healthy again", ready("Succeeded"))
	lose()
	waitFor(t, item, "unhealthy again", ready("Unhealthy"))
	if err := host.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	setDeploymentReady(t, slow)
	startReadyHost(t, options)
	last := waitFor(t, item, "healthy after the restart", ready("Succeeded"))
	if last.Status.JobID != deployed.Status.JobID || last.Status.Phase != succeeded {
		t.Errorf("expected no other job, but found %s", describe(last))
	}
}
