package e2e

import (
	"fmt"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestMove: items of both deployers of objects move between two clusters, through the death of their host.
func TestMove(t *testing.T) {
	other, there := testenv.StartForTest(t)
	kubeconfig, err := testenv.InlineKubeconfig(other.Config)
	if err != nil {
		t.Fatal(err)
	}
	namespace := newNamespace(t)
	createTarget(t, namespace, "old")
	target, err := testenv.NewTarget(namespace, "new", kubeconfig)
	if err != nil {
		t.Fatal(err)
	}
	create(t, target)
	if err := there.Create(
		t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}},
	); err != nil {
		t.Fatal(err)
	}
	options := testenv.HostOptions{PluginDir: pluginDir(t, "manifest", "helm"), Standalone: true}
	host := startReadyHost(t, options)
	plain := manifestItem(namespace, "manifest", "old", configMap(namespace, "deployed", "x"))
	chart := withTarget(newItem(namespace, "helm", helmType, plainRelease(namespace, "release")), "old")
	items := []*v1alpha1.DeployItem{plain, chart}
	for _, item := range items {
		create(t, item)
		waitFor(t, item, "Succeeded", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == succeeded })
	}
	held := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "deployed"}}
	edit(t, held, func() { held.Finalizers = []string{"test.pergola.dev/held"} })
	for i, item := range items {
		edit(t, item, func() {
			item.Spec.Target.Name = "new"
			metav1.SetMetaDataAnnotation(&item.ObjectMeta, "host.pergola.dev/move-from", "old")
			metav1.SetMetaDataAnnotation(&item.ObjectMeta, "host.pergola.dev/move-order",
				[]string{"remove-first", "deploy-first"}[i])
		})
	}
	waitFor(t, plain, "removed from the old cluster", func(i *v1alpha1.DeployItem) bool {
		for _, c := range i.Status.Conditions {
			if c.Type == "Moving" {
				return c.Reason == "Removing"
			}
		}
		return false
	})
	if err := host.Kill(); err != nil {
		t.Fatal(err)
	}
	startReadyHost(t, options)
	edit(t, held, func() { held.Finalizers = nil })
	for _, item := range items {
		waitFor(t, item, "moved", func(i *v1alpha1.DeployItem) bool {
			return i.Status.Phase == succeeded && i.Status.ObservedGeneration == i.Generation
		})
	}
	for name, c := range map[string]struct {
		client.Client
		want string
	}{"old": {admin, "release false, ConfigMap false"}, "new": {there, "release true, ConfigMap true"}} {
		revisions := &corev1.SecretList{}
		of := client.MatchingLabels{"owner": "helm", "name": "release"}
		if err := c.List(t.Context(), revisions, client.InNamespace(namespace), of); err != nil {
			t.Fatal(err)
		}
		err := c.Get(t.Context(), client.ObjectKeyFromObject(held), &corev1.ConfigMap{})
		if client.IgnoreNotFound(err) != nil {
			t.Fatal(err)
		}
		got := fmt.Sprintf("release %t, ConfigMap %t", len(revisions.Items) > 0, err == nil)
		if got != c.want {
			t.Errorf("the cluster %s: expected %s, but found %s", name, c.want, got)
		}
	}
}
