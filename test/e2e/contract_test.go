package e2e

import (
	"os"
	"path/filepath"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// example reads a deploy item from test/examples, as a Landscaper would create it in the namespace.
func example(t *testing.T, namespace, name string) *v1alpha1.DeployItem {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "examples", name))
	if err != nil {
		t.Fatal(err)
	}
	item := &v1alpha1.DeployItem{}
	if err := yaml.UnmarshalStrict(content, item); err != nil {
		t.Fatal(err)
	}
	item.Namespace = namespace
	item.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(item.Spec.Type)}
	return item
}

// TestContract follows items through Landscaper's deployer contract: a job, a change, a deletion that uninstalls
// and one that does not. An item of a type that no plugin serves is not touched meanwhile.
func TestContract(t *testing.T) {
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	annotated := newItem(namespace, "annotated", "example.org/nobody-serves-this", mockSucceeds)
	bare := newItem(namespace, "bare", "example.org/nobody-serves-this", mockSucceeds)
	bare.Annotations = nil
	create(t, annotated)
	create(t, bare)
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})

	item := carryOut(t, example(t, namespace, "contract.yaml"), succeeded)
	if err := admin.Get(t.Context(), client.ObjectKey{Name: "foo"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace that the item describes: %v", err)
	}
	s := item.Status
	if s.Deployer.Name != "manifest" || s.LastReconcileTime == nil || s.ObservedGeneration != item.Generation {
		t.Errorf("the status does not say who picked the item up, and when: %+v", s)
	}
	changeAndDelete(t, namespace)
	leaveBehind(t, namespace)

	for _, item := range []*v1alpha1.DeployItem{annotated, bare} {
		if fresh := read(t, item); fresh.ResourceVersion != item.ResourceVersion {
			t.Errorf("item %s of a type that nobody serves was written: %s", item.Name, describe(fresh))
		}
	}
}

// changeAndDelete: the target follows a change of an item, and the item goes after what it has deployed.
func changeAndDelete(t *testing.T, namespace string) {
	t.Helper()
	item := manifestItem(namespace, "item", "my-target",
		configMap(namespace, "first", "old"), configMap(namespace, "second", "old"))
	item = carryOut(t, item, succeeded)
	edit(t, item, func() { item.Spec.Config.Raw = []byte(manifestConfig(configMap(namespace, "first", "new"))) })
	item = carryOutAgain(t, item, succeeded)
	updated := &corev1.ConfigMap{}
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "first"}, updated)
	if err != nil || updated.Data["key"] != "new" {
		t.Errorf("the ConfigMap that was changed: data %v, error %v", updated.Data, err)
	}
	expectConfigMap(t, namespace, "second", false)

	deleteItem(t, item)
	expectConfigMap(t, namespace, "first", false)
}

// leaveBehind: with the annotation, the item goes and what it has deployed stays.
func leaveBehind(t *testing.T, namespace string) {
	t.Helper()
	item := manifestItem(namespace, "left", "my-target", configMap(namespace, "left", "x"))
	item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] = "true"
	item = carryOut(t, item, succeeded)
	deleteItem(t, item)
	expectConfigMap(t, namespace, "left", true)
}

func expectConfigMap(t *testing.T, namespace, name string, there bool) {
	t.Helper()
	err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, &corev1.ConfigMap{})
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if apierrors.IsNotFound(err) == there {
		t.Errorf("expected ConfigMap %s to be there: %t", name, there)
	}
}
