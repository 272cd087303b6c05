package e2e

import (
	"bytes"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestFailedItemsHeal: a failed item succeeds by itself when the target lets it, and at once after a repair of the
// credentials of its Target; a spec that changes during a job gets a job of its own.
func TestFailedItemsHeal(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "manifest"), Standalone: true,
		Config: writeConfig(t, anyConfig+"retries: {first: 1s, longest: 2s}\n"),
	})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	late := namespace + "-late"
	item := manifestItem(namespace, "item", "my-target", configMap(late, "deployed", "x"))
	item.Spec.Timeout = "2s"
	create(t, item)
	waitFor(t, item, "tried again after a timeout", func(i *v1alpha1.DeployItem) bool {
		return slices.ContainsFunc(i.Status.Conditions, func(c v1alpha1.Condition) bool {
			return c.Type == "NextTry" && c.Status == v1alpha1.ConditionFalse
		})
	})
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: late}})
	waitFor(t, item, "Succeeded by itself", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == succeeded })

	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "my-target"}}
	var good []byte
	edit(t, secret, func() {
		good = secret.Data["kubeconfig"]
		secret.Data["kubeconfig"] = bytes.ReplaceAll(good, []byte("client-certificate-data"), []byte("client-certificate"))
	})
	edit(t, item, func() {
		item.Annotations["host.pergola.dev/retries"] = "none"
		item.Spec.Timeout = "3s"
	})
	failing := waitFor(t, item, "Failed for good", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == failed && i.Status.ObservedGeneration == i.Generation
	})
	edit(t, secret, func() { secret.Data["kubeconfig"] = good })
	waitFor(t, item, "Succeeded after the repair", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == succeeded && i.Status.JobID != failing.Status.JobID
	})

	edit(t, item, func() {
		item.Spec = manifestItem(namespace, "item", "my-target", unreadyDeployment(late)).Spec
	})
	slow := waitFor(t, item, "waiting", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing && i.Status.ObservedGeneration == i.Generation
	})
	edit(t, item, func() {
		item.Spec = manifestItem(namespace, "item", "my-target", configMap(late, "deployed", "y")).Spec
	})
	waitFor(t, item, "Succeeded with the changed spec", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == succeeded && i.Status.JobID != slow.Status.JobID &&
			i.Status.ObservedGeneration == i.Generation
	})
}
