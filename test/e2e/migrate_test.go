package e2e

import (
	"encoding/base64"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// TestMigration: items as Landscaper's deployers leave them.
// Rule (migrate.md#check): `pergola migrate check` says what the first job of each item would do.
// Rule (migrate.md#what-the-first-job-does): No object is recreated.
func TestMigration(t *testing.T) {
	namespace := newNamespace(t)
	createTarget(t, namespace, "target")
	settled := landscapersManifestItem(t, namespace, "settled", "one", "one")
	edited := landscapersManifestItem(t, namespace, "edited", "one", "two")
	released, releasedUID := landscapersHelmItem(t, namespace, "released")
	drifted, _ := landscapersHelmItem(t, namespace, "drifted")
	config := &corev1.ConfigMap{}
	config.Namespace, config.Name = namespace, "drifted"
	edit(t, config, func() { config.Data["key"] = "changed" })
	scheduled := landscapersManifestItem(t, namespace, "scheduled", "one", "one")
	edit(t, scheduled, func() {
		schedule := object{"continuousReconcile": object{"every": "24h"}}
		scheduled.Spec.Config.Raw = []byte(manifestConfigWith(schedule, configMap(namespace, "scheduled", "one")))
	})
	unknown := landscapersManifestItem(t, namespace, "unknown", "one", "one")
	edit(t, unknown, func() {
		misspelt := object{"manifestz": []any{}}
		unknown.Spec.Config.Raw = []byte(manifestConfigWith(misspelt, configMap(namespace, "unknown", "one")))
	})
	landscapersDeployment(t, namespace, "workload")
	landscapersClaim(t, namespace, "waiting")
	leftBy(t, withTarget(newItem(namespace, "component", string(helmv1alpha1.Type), string(marshal(t, object{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": object{"fromResource": object{"componentName": "a"}}, "name": "component", "namespace": namespace,
	}))), "target"), nil)
	leftBy(t, newItem(namespace, "mock", mockType, mockSucceeds), nil)
	leftBy(t, newItem(namespace, "invalid", mockType, strings.Replace(mockSucceeds, "}", `,"phase":"Soon"}`, 1)), nil)
	running := leftBy(t, newItem(namespace, "running", mockType, mockSucceeds), nil)
	patchStatus(t, running, object{"jobID": uuid.NewString(), "phase": v1alpha1.DeployItemPhaseProgressing})

	kubeconfig := adminKubeconfig(t)
	check := func(more ...string) printed {
		t.Helper()
		return pergola(t, append([]string{
			"migrate", "check", "--kubeconfig", kubeconfig, "-n", namespace,
			"--plugin-dir", pluginDir(t, "manifest", "helm", "mock"),
		}, more...)...)
	}
	before := versions(t, namespace)
	found := check("-o", "json")
	found.expect(t, 1)
	var findings []struct {
		DeployItem, Verdict string
		Details             []string
	}
	if err := json.Unmarshal([]byte(found.stdout), &findings); err != nil {
		t.Fatal(err)
	}
	verdicts := map[string]string{}
	for _, f := range findings {
		verdicts[f.DeployItem[len(namespace)+1:]] = f.Verdict
	}
	if diff := cmp.Diff(map[string]string{
		"settled": "AsItIs", "edited": "Changes", "released": "AsItIs", "unknown": "Fails", "component": "Fails",
		"mock": "NotCompared", "invalid": "Fails", "running": "Busy",
		"drifted": "Changes", "scheduled": "Differs", "workload": "AsItIs", "waiting": "Differs",
	}, verdicts); diff != "" {
		t.Errorf("verdicts (-want +got):\n%s\n%s", diff, found.stdout)
	}
	check().expect(t, 1, "update ConfigMap "+namespace+"/edited", "manifestz", "fromResource", "3 AsItIs",
		"update ConfigMap "+namespace+"/drifted: repairs data.key", "continuousReconcile: it starts jobs",
		"PersistentVolumeClaim "+namespace+"/waiting: the job waits for it")
	if diff := cmp.Diff(before, versions(t, namespace)); diff != "" {
		t.Errorf("the check has written something (-before +after):\n%s", diff)
	}

	startReadyHost(t, testenv.HostOptions{PluginDir: pluginDir(t, "manifest", "helm")})
	uid := live(t, configMap(namespace, "settled", "")).GetUID()
	for _, item := range []*v1alpha1.DeployItem{settled, edited, released, drifted} {
		carryOutAgain(t, item, succeeded)
	}
	if now := live(t, configMap(namespace, "settled", "")).GetUID(); now != uid {
		t.Errorf("the object of an item is another one: %s, before %s", now, uid)
	}
	if now := live(t, configMap(namespace, "released", "")).GetUID(); now != releasedUID {
		t.Errorf("the object of a release is another one: %s, before %s", now, releasedUID)
	}
	check().expect(t, 1, "5 AsItIs")
}

// leftBy creates an item with the status that Landscaper's deployers leave.
func leftBy(t *testing.T, item *v1alpha1.DeployItem, providerStatus object) *v1alpha1.DeployItem {
	t.Helper()
	item.Finalizers = []string{v1alpha1.Finalizer}
	create(t, item)
	job := uuid.NewString()
	status := object{"phase": succeeded, "jobID": job, "jobIDFinished": job, "observedGeneration": item.Generation}
	if providerStatus != nil {
		status["providerStatus"] = providerStatus
	}
	return patchStatus(t, item, status)
}

// landscapersManifestItem creates a ConfigMap as Landscaper's manifest deployer has deployed it, and its item, whose
// configuration has another value since.
func landscapersManifestItem(t *testing.T, namespace, name, deployed, configured string) *v1alpha1.DeployItem {
	t.Helper()
	config := &corev1.ConfigMap{Data: map[string]string{"key": deployed}}
	config.Namespace, config.Name = namespace, name
	config.Labels = map[string]string{"manifest.deployer.landscaper.gardener.cloud/deployitem": name}
	create(t, config)
	return leftBy(t, manifestItem(namespace, name, "target", configMap(namespace, name, configured)), object{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderStatus",
		"managedResources": []object{{"policy": "manage", "resource": object{
			"apiVersion": "v1", "kind": "ConfigMap", "namespace": namespace, "name": name, "uid": config.UID,
			"resourceVersion": config.ResourceVersion,
		}}},
	})
}

// landscapersDeployment creates a Deployment as it is after a rollout, with what its controller adds, and its item.
func landscapersDeployment(t *testing.T, namespace, name string) {
	t.Helper()
	selector := map[string]string{"app": name}
	deployment := object{
		"apiVersion": "apps/v1", "kind": "Deployment", "metadata": object{"namespace": namespace, "name": name},
		"spec": object{
			"replicas": 0, "selector": object{"matchLabels": selector},
			"template": object{
				"metadata": object{"labels": selector}, "spec": object{"containers": []object{{"name": "a", "image": "a"}}},
			},
		},
	}
	live := landscapersObject(t, namespace, name, deployment, map[string]string{"deployment.kubernetes.io/revision": "1"})
	live.Object["status"] = map[string]any{"observedGeneration": live.GetGeneration()}
	if err := admin.Status().Update(t.Context(), live); err != nil {
		t.Fatal(err)
	}
}

// landscapersClaim creates a claim that is never bound, and its item, which Landscaper has not waited for.
func landscapersClaim(t *testing.T, namespace, name string) {
	t.Helper()
	landscapersObject(t, namespace, name, object{
		"apiVersion": "v1", "kind": "PersistentVolumeClaim", "metadata": object{"namespace": namespace, "name": name},
		"spec": object{
			"accessModes": []string{"ReadWriteOnce"}, "storageClassName": "",
			"resources": object{"requests": object{"storage": "1Gi"}},
		},
	}, nil)
}

// landscapersObject creates an object of a manifest, with annotations of others, and its item.
func landscapersObject(
	t *testing.T, namespace, name string, manifest object, annotations map[string]string,
) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := json.Unmarshal(marshal(t, manifest), &o.Object); err != nil {
		t.Fatal(err)
	}
	o.SetLabels(map[string]string{"manifest.deployer.landscaper.gardener.cloud/deployitem": name})
	o.SetAnnotations(annotations)
	create(t, o)
	leftBy(t, manifestItem(namespace, name, "target", manifest), object{
		"apiVersion": "manifest.deployer.landscaper.gardener.cloud/v1alpha2", "kind": "ProviderStatus",
		"managedResources": []object{{"policy": "manage", "resource": object{
			"apiVersion": o.GetAPIVersion(), "kind": o.GetKind(), "namespace": namespace, "name": name, "uid": o.GetUID(),
		}}},
	})
	return o
}

// landscapersHelmItem installs a release without labels, as Landscaper's helm deployer does, and creates its item.
func landscapersHelmItem(t *testing.T, namespace, name string) (*v1alpha1.DeployItem, types.UID) {
	t.Helper()
	installed := &chart.Chart{
		Metadata: &chart.Metadata{APIVersion: chart.APIVersionV2, Name: name, Version: "1.0.0"},
		Templates: []*chart.File{{
			Name: "templates/config.yaml",
			Data: []byte("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}}\ndata: {key: one}\n"),
		}},
	}
	file, err := chartutil.Save(installed, t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	kubeconfig, helm := adminKubeconfig(t), &action.Configuration{}
	flags := &genericclioptions.ConfigFlags{KubeConfig: &kubeconfig, Namespace: &namespace}
	if err := helm.Init(flags, namespace, "secrets", t.Logf); err != nil {
		t.Fatal(err)
	}
	install := action.NewInstall(helm)
	install.ReleaseName, install.Namespace = name, namespace
	if _, err := install.RunWithContext(t.Context(), installed, nil); err != nil {
		t.Fatal(err)
	}
	item := withTarget(newItem(namespace, name, string(helmv1alpha1.Type), string(marshal(t, object{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": object{"archive": object{"raw": base64.StdEncoding.EncodeToString(archive)}},
		"name":  name, "namespace": namespace,
	}))), "target")
	leftBy(t, item, object{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": "ProviderStatus", "managedResources": []object{},
	})
	return item, live(t, configMap(namespace, name, "")).GetUID()
}

// adminKubeconfig writes the kubeconfig of the administrator.
func adminKubeconfig(t *testing.T) string {
	t.Helper()
	text, err := testenv.InlineKubeconfig(controlPlane.Config)
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// versions are the resource versions of all ConfigMaps, Secrets and items of a namespace.
func versions(t *testing.T, namespace string) map[string]string {
	t.Helper()
	configs, secrets, items := &corev1.ConfigMapList{}, &corev1.SecretList{}, &v1alpha1.DeployItemList{}
	for _, list := range []client.ObjectList{configs, secrets, items} {
		if err := admin.List(t.Context(), list, client.InNamespace(namespace)); err != nil {
			t.Fatal(err)
		}
	}
	all := map[string]string{}
	for _, o := range configs.Items {
		all["configmap "+o.Name] = o.ResourceVersion
	}
	for _, o := range secrets.Items {
		all["secret "+o.Name] = o.ResourceVersion
	}
	for _, o := range items.Items {
		all["item "+o.Name] = o.ResourceVersion
	}
	return all
}
