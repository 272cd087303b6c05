package node

import (
	"context"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

const (
	release, system, deployment = "installed", "installed-system", "installed-pergola"
	// examples is the namespace of the examples, and deployer its ServiceAccount that deploys there.
	examples, deployer = "pergola-demo", "deployer"
	// waitingJobs are under way when an upgrade begins, newJobs begin while it goes on.
	waitingJobs, newJobs = 20, 10
)

// ofRepository is the chart of this repository.
const ofRepository = "charts/pergola"

// helm installs or upgrades the release with these values besides those that all have, and waits until it is there.
func helm(ctx context.Context, how, chart string, values ...string) (string, error) {
	image, tag, _ := strings.Cut(hostImage, ":")
	helper, _, _ := strings.Cut(helperImage, ":")
	hello, helloTag, _ := strings.Cut(helloImage, ":")
	args := []string{
		how, release, chart, "--namespace", system, "--create-namespace", "--wait", "--timeout", patience.String(),
		"--take-ownership", // of the definitions, which other tests need as well
		"--set", "plugins.mock.enabled=true",
		"--set", "image.repository=" + image + ",image.tag=" + tag + ",image.pullPolicy=Never",
		"--set", "plugins.container.helperImage.repository=" + helper + ",plugins.container.helperImage.tag=" + tag,
		"--set", "rbac.targetTokenNamespaces={" + examples + "},targetServiceAccount=" + deployer,
		"--set", "extraPlugins.hello.mode=imageVolume,extraPlugins.hello.image.pullPolicy=Never" +
			",extraPlugins.hello.image.repository=" + hello + ",extraPlugins.hello.image.tag=" + helloTag,
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return run(ctx, "helm", args...)
}

// TestInstall is the life of an installation. Each step goes on from where the one before has come to.
func TestInstall(t *testing.T) { //nolint:paralleltest // there must be no other host
	w := &world{T: t, namespace: examples, target: "cluster"}
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		explain(ctx, t, system)
		if _, err := run(ctx, "helm", "uninstall", release, "--namespace", system, "--wait"); err != nil {
			t.Error(err)
		}
	})
	mustHelm := func(how string, values ...string) string {
		t.Helper()
		notes, err := helm(t.Context(), how, ofRepository, values...)
		if err != nil {
			t.Fatal(err)
		}
		return notes
	}
	w.prepareExamples()
	notes := mustHelm("install")
	if !strings.Contains(notes, "plugins container, hello, helm, manifest, mock") {
		t.Errorf("the notes do not tell which plugins there are:\n%s", notes)
	}
	w.applyExamples()
	w.greet()

	w.run("kubectl", "scale", "deployment", deployment, "-n", system, "--replicas=2")
	w.awaitReplicas(system, deployment, 2)
	// The number of replicas is the autoscaler's from now on.
	mustHelm("upgrade", "autoscaling.enabled=true", "autoscaling.minReplicas=2", "autoscaling.maxReplicas=2")
	w.awaitReplicas(system, deployment, 2)
	w.upgradeAmidJobs()
	w.goBack()

	w.mustBeKept(true)
	w.run("helm", "uninstall", release, "--namespace", system, "--wait")
	w.mustStay()
	w.mustBeKept(false)
	mustHelm("install")
	w.annotate("manifest", v1alpha1.OperationAnnotation, v1alpha1.OperationReconcile)
	w.awaitSuccess("manifest")
	w.run("pergola", "remove", "--with-deployed", "--namespaces", examples, "--timeout", patience.String())
	for _, name := range []string{"settings", "job-000"} { // of an example, and of the upgrade
		deployed := &corev1.ConfigMap{ObjectMeta: w.meta(name)}
		if err := admin.Get(t.Context(), client.ObjectKeyFromObject(deployed), deployed); !apierrors.IsNotFound(err) {
			t.Errorf("expected the ConfigMap %s to be gone, but found: %v", name, err)
		}
	}
}

// laterChart writes a chart of a later version, which has a field more in its definition of DeployItems, and returns
// its directory.
func (w *world) laterChart() string {
	w.Helper()
	dir := filepath.Join(w.TempDir(), "pergola")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(testenv.Root(), ofRepository))); err != nil {
		w.Fatal(err)
	}
	file := filepath.Join(dir, "files", "crds", "deployitems.landscaper.gardener.cloud.yaml")
	before, err := os.ReadFile(file)
	if err != nil {
		w.Fatal(err)
	}
	const field = "              updateOnChangeOnly:\n"
	after := strings.Replace(string(before), field, "              addedLater: {type: string}\n"+field, 1)
	if after == string(before) {
		w.Fatalf("expected %q in %s", field, file)
	}
	w.write(file, []byte(after), 0o600)
	return dir
}

// goBack rolls the upgrade back. An item with a field of the later version goes on, without the field after the next
// write of its spec.
func (w *world) goBack() {
	w.Helper()
	field := func() string {
		return w.run("kubectl", "get", "deployitem", "manifest", "-n", examples, "-o", "jsonpath={.spec.addedLater}")
	}
	patch := func(spec string) {
		w.run("kubectl", "patch", "deployitem", "manifest", "-n", examples, "--type", "merge", "-p", `{"spec": `+spec+`}`)
	}
	patch(`{"addedLater": "x"}`)
	if found := field(); found != "x" {
		w.Errorf("expected the field of the later version, but found %q", found)
	}
	w.awaitSuccess("manifest")
	w.run("helm", "rollback", release, "--namespace", system, "--wait", "--timeout", patience.String())
	w.awaitReplicas(system, deployment, 2)
	w.eventually("the former definition", func(context.Context) (string, error) { return field(), nil })
	patch(`{"timeout": "9m"}`)
	w.awaitSuccess("manifest")
}

// mustBeKept checks whether the Target of the examples has the finalizer of a host.
func (w *world) mustBeKept(kept bool) {
	w.Helper()
	target := &v1alpha1.Target{ObjectMeta: w.meta(w.target)}
	if err := admin.Get(w.Context(), client.ObjectKeyFromObject(target), target); err != nil {
		w.Fatal(err)
	}
	if len(target.Finalizers) > 0 != kept {
		w.Errorf("expected the Target to have a finalizer: %t, but found %v", kept, target.Finalizers)
	}
}

// prepareExamples creates the namespace of the examples, with a ServiceAccount that may do everything, and a Target
// that says no more than that it is this cluster.
func (w *world) prepareExamples() {
	w.Helper()
	for _, o := range []client.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: examples}},
		&corev1.ServiceAccount{ObjectMeta: w.meta(deployer)},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "deployer-of-examples"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
			Subjects:   []rbacv1.Subject{{Kind: "ServiceAccount", Namespace: examples, Name: deployer}},
		},
		&v1alpha1.Target{ObjectMeta: w.meta(w.target), Spec: v1alpha1.TargetSpec{
			Type: v1alpha1.KubernetesClusterTargetType, Configuration: &runtime.RawExtension{Raw: []byte(`{"selfConfig": {}}`)},
		}},
	} {
		w.create(o)
	}
}

// applyExamples creates the examples of all plugins, and waits for their success.
func (w *world) applyExamples() {
	w.Helper()
	names := []string{"mock", "manifest", "helm", "container"}
	for _, name := range names {
		content, err := os.ReadFile(filepath.Join(testenv.Root(), "test", "examples", name+".yaml"))
		if err != nil {
			w.Fatal(err)
		}
		item := &v1alpha1.DeployItem{}
		if err := yaml.UnmarshalStrict(content, item); err != nil {
			w.Fatal(err)
		}
		item.Namespace = examples
		if name == "helm" { // no registry is there; the chart is in the item
			fields := object{}
			if err := yaml.Unmarshal(item.Spec.Config.Raw, &fields); err != nil {
				w.Fatal(err)
			}
			fields["chart"] = object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack("plain"))}}
			item.Spec.Config.Raw = w.marshal(fields)
		}
		w.create(item)
	}
	for _, name := range names {
		w.awaitSuccess(name)
	}
}

// awaitSuccess waits until an item has succeeded and nothing more is to be done.
func (w *world) awaitSuccess(name string) *v1alpha1.DeployItem {
	w.Helper()
	return w.await(name, "Succeeded", func(i *v1alpha1.DeployItem) bool {
		return i.Status.Phase == succeeded && i.Status.JobID == i.Status.JobIDFinished &&
			i.Annotations[v1alpha1.OperationAnnotation] == ""
	})
}

// upgradeAmidJobs replaces all Pods while jobs are under way, of which some wait the whole time and some begin. None
// is lost or done again.
func (w *world) upgradeAmidJobs() {
	w.Helper()
	gate := &corev1.ConfigMap{ObjectMeta: w.meta("gate"), Data: map[string]string{"open": "no"}}
	w.create(gate)
	jobs, made := map[string]string{}, map[string]types.UID{}
	for i := range waitingJobs {
		name := w.createGated(i)
		w.awaitWord(name, "gate")
		item, err := w.find(name)
		if err != nil {
			w.Fatal(err)
		}
		object := &corev1.ConfigMap{ObjectMeta: w.meta(name)}
		w.get(object)
		jobs[name], made[name] = item.Status.JobID, object.UID
	}
	upgraded := make(chan error, 1)
	go func() {
		_, err := helm(w.Context(), "upgrade", w.laterChart(),
			"autoscaling.enabled=true", "autoscaling.minReplicas=2", "autoscaling.maxReplicas=2", "podAnnotations.upgraded=yes")
		upgraded <- err
	}()
	w.eventually("the first Pod after the upgrade", func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		if err := admin.List(ctx, pods, client.InNamespace(system)); err != nil {
			return "", err
		}
		for _, pod := range pods.Items {
			containers := pod.Status.ContainerStatuses
			if pod.Annotations["upgraded"] == "yes" && len(containers) > 0 && containers[0].Ready {
				return "", nil
			}
		}
		return "there is none that is ready", nil
	})
	var begun []string
	for i := range newJobs {
		begun = append(begun, w.createGated(waitingJobs+i))
	}
	gate.Data["open"] = "yes"
	if err := admin.Update(w.Context(), gate); err != nil {
		w.Fatal(err)
	}
	if err := <-upgraded; err != nil {
		w.Fatal(err)
	}
	w.awaitReplicas(system, deployment, 2)
	for name, job := range jobs {
		object := &corev1.ConfigMap{ObjectMeta: w.meta(name)}
		item := w.awaitSuccess(name)
		if w.get(object); item.Status.JobID != job || object.UID != made[name] {
			w.Errorf("%s: expected the job %s to end, and its object to stay as it was, but found %s",
				name, job, testenv.Describe(item))
		}
	}
	for _, name := range begun {
		w.awaitSuccess(name)
	}
}

// createGated creates an item that makes a ConfigMap and waits until the gate is open, and returns its name.
func (w *world) createGated(i int) (name string) {
	w.Helper()
	name = fmt.Sprintf("job-%03d", i)
	gate := object{
		"name":             "gate",
		"resourceSelector": []object{{"apiVersion": "v1", "kind": "ConfigMap", "namespace": examples, "name": "gate"}},
		"requirements":     []object{{"jsonPath": ".data.open", "operator": "==", "values": []object{{"value": "yes"}}}},
	}
	made := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": name}}
	w.create(w.newItem(name, with(w.manifests(made), object{"readinessChecks": object{"custom": []object{gate}}})))
	return name
}

// mustStay checks that nothing runs any more, and that items and definitions are there.
func (w *world) mustStay() {
	w.Helper()
	w.eventually("the Pods to be gone", func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		err := admin.List(ctx, pods, client.InNamespace(system))
		if len(pods.Items) > 0 {
			return fmt.Sprintf("there are %d", len(pods.Items)), err
		}
		return "", err
	})
	items := &v1alpha1.DeployItemList{}
	if err := admin.List(w.Context(), items, client.InNamespace(examples)); err != nil {
		w.Fatal(err)
	}
	if want := 5 + waitingJobs + newJobs; len(items.Items) != want { // four examples and a greeting
		w.Errorf("expected %d items, but found %d", want, len(items.Items))
	}
	for _, item := range items.Items {
		if item.DeletionTimestamp != nil || item.Status.Phase != succeeded {
			w.Errorf("item %s, deleted at %v: %s", item.Name, item.DeletionTimestamp, testenv.Describe(&item))
		}
	}
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := admin.List(w.Context(), definitions); err != nil {
		w.Fatal(err)
	}
	kept := slices.DeleteFunc(definitions.Items, func(d apiextensionsv1.CustomResourceDefinition) bool {
		return d.Spec.Group != v1alpha1.GroupVersion.Group || d.DeletionTimestamp != nil
	})
	if len(kept) != 5 {
		w.Errorf("expected five CustomResourceDefinitions, but found %d", len(kept))
	}
}
