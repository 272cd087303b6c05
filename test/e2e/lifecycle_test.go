package e2e

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// example reads a deploy item from test/examples, as a Landscaper would create it in the namespace.
func example(t *testing.T, namespace string, path ...string) *v1alpha1.DeployItem {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(append([]string{testenv.Root(), "test", "examples"}, path...)...))
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

func exports(t *testing.T, item *v1alpha1.DeployItem) map[string]any {
	t.Helper()
	ref := item.Status.ExportReference
	if ref == nil {
		t.Fatalf("the item has no export reference: %s", describe(item))
	}
	secret := &corev1.Secret{}
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, secret); err != nil {
		t.Fatal(err)
	}
	var values map[string]any
	if err := json.Unmarshal(secret.Data["config"], &values); err != nil {
		t.Fatal(err)
	}
	return values
}

func TestSeedContract(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")

	item := carryOut(t, example(t, namespace, "seeds", "contract.yaml"), v1alpha1.DeployItemPhaseSucceeded)

	if err := admin.Get(t.Context(), client.ObjectKey{Name: "foo"}, &corev1.Namespace{}); err != nil {
		t.Errorf("the namespace that the item describes: %v", err)
	}
	if item.Status.Deployer.Name != "manifest" || item.Status.LastReconcileTime == nil || item.Status.ObservedGeneration != item.Generation {
		t.Errorf("the status does not say who picked the item up, and when: %+v", item.Status)
	}
}

func TestSeedExtensions(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	create(t, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "example"}})

	item := carryOut(t, example(t, namespace, "seeds", "extensions.yaml"), v1alpha1.DeployItemPhaseSucceeded)

	want := map[string]any{"test": map[string]any{"foo": "bar"}}
	if diff := cmp.Diff(want, exports(t, item)); diff != "" {
		t.Errorf("exports (-want +got):\n%s", diff)
	}
}

func TestUpdateAndDelete(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	first := client.ObjectKey{Namespace: namespace, Name: "first"}
	second := client.ObjectKey{Namespace: namespace, Name: "second"}

	item := withTarget(newItem(namespace, "item", manifestType,
		manifestConfig(configMap(namespace, "first", "old"), configMap(namespace, "second", "old"))), "my-target")
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	edit(t, item, func() { item.Spec.Config.Raw = []byte(manifestConfig(configMap(namespace, "first", "new"))) })
	item = carryOutAgain(t, item, v1alpha1.DeployItemPhaseSucceeded)
	updated := &corev1.ConfigMap{}
	if err := admin.Get(t.Context(), first, updated); err != nil || updated.Data["key"] != "new" {
		t.Errorf("the ConfigMap that was changed: data %v, error %v", updated.Data, err)
	}
	if err := admin.Get(t.Context(), second, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap that the item no longer describes is still there: %v", err)
	}

	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)
	if err := admin.Get(t.Context(), first, &corev1.ConfigMap{}); !apierrors.IsNotFound(err) {
		t.Errorf("the ConfigMap is still there after the deletion of its item: %v", err)
	}
}

func waitGone(t *testing.T, item *v1alpha1.DeployItem) {
	t.Helper()
	eventually(t, "the item to be gone", func(ctx context.Context) (string, error) {
		fresh := &v1alpha1.DeployItem{}
		err := admin.Get(ctx, client.ObjectKeyFromObject(item), fresh)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return describe(fresh), err
	})
}

func TestDeleteWithoutUninstall(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest")})
	namespace := newNamespace(t)
	createTarget(t, namespace, "my-target")
	item := withTarget(newItem(namespace, "item", manifestType, manifestConfig(configMap(namespace, "kept", "x"))), "my-target")
	item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] = "true"
	item = carryOut(t, item, v1alpha1.DeployItemPhaseSucceeded)

	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	setJob(t, item)
	waitGone(t, item)

	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "kept"}, &corev1.ConfigMap{}); err != nil {
		t.Errorf("the ConfigMap was to stay: %v", err)
	}
}

func TestStandalone(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "mock"), Standalone: true})
	namespace := newNamespace(t)
	item := newItem(namespace, "item", mockType, mockSucceeds)
	item.Annotations = nil
	create(t, item)

	finished := func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID != "" && i.Status.JobID == i.Status.JobIDFinished && i.Status.ObservedGeneration == i.Generation
	}
	item = waitFor(t, item, "finished without anybody setting a job", finished)
	firstJob := item.Status.JobID
	if got := item.Annotations[v1alpha1.DeployerTypeAnnotation]; got != mockType {
		t.Errorf("annotation %s: expected %q, but found %q", v1alpha1.DeployerTypeAnnotation, mockType, got)
	}

	edit(t, item, func() { item.Annotations[v1alpha1.OperationAnnotation] = v1alpha1.OperationReconcile })
	item = waitFor(t, item, "reconciled because of the annotation, which is gone", func(i *v1alpha1.DeployItem) bool {
		return finished(i) && i.Status.JobID != firstJob && i.Annotations[v1alpha1.OperationAnnotation] == ""
	})
	secondJob := item.Status.JobID

	edit(t, item, func() { item.Spec.Config.Raw = []byte(mockFails) })
	item = waitFor(t, item, "failed because of a change", func(i *v1alpha1.DeployItem) bool {
		return finished(i) && i.Status.JobID != secondJob && i.Status.Phase == v1alpha1.DeployItemPhaseFailed
	})

	if err := admin.Delete(t.Context(), item); err != nil {
		t.Fatal(err)
	}
	waitGone(t, item)
}

func TestStandaloneJobChangedWhileUnderWay(t *testing.T) {
	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "probe"), Standalone: true})
	namespace := newNamespace(t)
	dir := t.TempDir()
	item := newItem(namespace, "item", probeType, probeConfig(dir, "waitFor"))
	create(t, item)
	item = waitFor(t, item, "waiting", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == v1alpha1.DeployItemPhaseProgressing })
	firstJob := item.Status.JobID

	edit(t, item, func() { item.Spec.Config.Raw = []byte(probeConfig(dir)) })
	touch(t, filepath.Join(dir, "waitFor"))

	waitFor(t, item, "finished for the second generation", func(i *v1alpha1.DeployItem) bool {
		return i.Status.JobID != firstJob && i.Status.JobID == i.Status.JobIDFinished && i.Status.ObservedGeneration == 2
	})
}
