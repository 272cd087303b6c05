package helm

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/charts"
	"github.com/pergola-deploy/pergola/test/testenv"
)

type object = map[string]any

// targetName is that of the Target in each namespace.
const targetName = "target"

// release is the name of every release. Each is in a namespace of its own.
const release = "shop"

// hostConfig lets everything be under way at once that a test holds at once.
const hostConfig = `
apiVersion: host.pergola.dev/v1alpha1
kind: HostConfiguration
workers: 40
plugins:
  helm:
    config: {apiVersion: helm.pergola.dev/v1alpha1, kind: HelmConfiguration, workers: 40}
`

// world is what a test plays in: a namespace with items, and a host with the helm deployer.
type world struct {
	*testing.T

	namespace string
	options   testenv.HostOptions
	host      *testenv.Host
	// timeout is that of the items from now on; empty for the default.
	timeout v1alpha1.Duration
}

// newWorld creates a namespace with a Target. No host is started.
func newWorld(t *testing.T, kubeconfig []byte) *world {
	t.Helper()
	w := &world{T: t, namespace: "helm-" + uuid.NewString()[:8]}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.create(&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: w.namespace}})
	w.create(&v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: targetName, Namespace: w.namespace},
		Spec: v1alpha1.TargetSpec{
			Type:          v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: w.marshal(object{"kubeconfig": string(kubeconfig)})},
		},
	})
	w.options = testenv.HostOptions{
		Binary: filepath.Join(binaries, "pergola"), Kubeconfig: hostKubeconfig,
		PluginDir: t.TempDir(), Config: filepath.Join(t.TempDir(), "host.yaml"),
	}
	w.write(w.options.Config, []byte(hostConfig), 0o600)
	if err := testenv.AddPlugin(filepath.Join(binaries, "plugins", "helm"), w.options.PluginDir, "helm"); err != nil {
		t.Fatal(err)
	}
	return w
}

// startHost starts a host and waits until it is ready. It is stopped at the end of the test, at which its log must show no data race.
func (w *world) startHost() {
	w.Helper()
	host, err := testenv.StartHost(w.Context(), w.options)
	if err != nil {
		w.Fatal(err)
	}
	w.keep(host)
	w.host = host
}

// keep waits until a host is ready, and stops it at the end of the test.
func (w *world) keep(host *testenv.Host) {
	w.Helper()
	w.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(w.Context()), patience)
		defer cancel()
		if err := host.Stop(ctx); err != nil && !strings.Contains(err.Error(), "signal: killed") {
			w.Error(err)
		}
		if strings.Contains(host.Log(), "DATA RACE") || w.Failed() {
			w.Errorf("log of the host:\n%s", host.Log())
		}
	})
	ctx, cancel := context.WithTimeout(w.Context(), patience)
	defer cancel()
	if err := host.WaitReady(ctx); err != nil {
		w.Fatal(err)
	}
}

// plugin returns the process id of the host's plugin.
func (w *world) plugin() int {
	w.Helper()
	var found int
	w.eventually("the plugin to run", func(context.Context) (string, error) {
		children, err := w.host.Children()
		if len(children["helm"]) != 1 {
			return fmt.Sprintf("children %v", children), err
		}
		found = children["helm"][0]
		return "", nil
	})
	return found
}

// deployment is a provider configuration without the namespace of the release.
type deployment = object

// deploy is the configuration of a chart of the tests with these values.
func deploy(chart string, values object, more ...object) deployment {
	config := deployment{
		"apiVersion": helmv1alpha1.GroupVersion.String(), "kind": helmv1alpha1.ProviderConfigurationKind,
		"chart": object{"archive": object{"raw": base64.StdEncoding.EncodeToString(charts.Pack(chart))}},
		"name":  release, "createNamespace": true, "values": values,
	}
	for _, fields := range more {
		maps.Copy(config, fields)
	}
	return config
}

// home is the namespace of an item's release.
func (w *world) home(item string) string { return w.namespace + "-" + item }

// configOf is the configuration of an item.
func (w *world) configOf(name string, d deployment) *runtime.RawExtension {
	w.Helper()
	config := maps.Clone(d)
	config["namespace"] = w.home(name)
	return &runtime.RawExtension{Raw: w.marshal(config)}
}

// put creates an item, or gives it another configuration, and sets a job, which it returns.
func (w *world) put(name string, d deployment) (jobID string) {
	w.Helper()
	item, err := w.find(name)
	switch {
	case apierrors.IsNotFound(err):
		item = &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{
				Name: name, Namespace: w.namespace,
				Annotations: map[string]string{
					v1alpha1.DeployerTypeAnnotation:       string(helmv1alpha1.Type),
					v1alpha1.DeployerTargetNameAnnotation: targetName,
				},
			},
			Spec: v1alpha1.DeployItemSpec{
				Type: helmv1alpha1.Type, Context: v1alpha1.DefaultContextName, Config: w.configOf(name, d),
				Target: &v1alpha1.ObjectReference{Name: targetName, Namespace: w.namespace},
			},
		}
		item.Spec.Timeout = w.timeout
		w.create(item)
	case err != nil:
		w.Fatal(err)
	default:
		err := testenv.Change(w.Context(), admin, item, func() { item.Spec.Config, item.Spec.Timeout = w.configOf(name, d), w.timeout })
		if err != nil {
			w.Fatal(err)
		}
	}
	return w.setJob(name)
}

// remove deletes an item as a Landscaper does, and sets a job, which it returns.
func (w *world) remove(name string) (jobID string) {
	w.Helper()
	if err := admin.Delete(w.Context(), w.named(name)); err != nil {
		w.Fatal(err)
	}
	return w.setJob(name)
}

// setJob sets a new job as a Landscaper does.
func (w *world) setJob(name string) (jobID string) {
	w.Helper()
	item, err := w.find(name)
	if err != nil {
		w.Fatal(err)
	}
	jobID = uuid.NewString()
	now := v1alpha1.Now()
	patch := w.marshal(object{"status": object{
		"jobID": jobID, "jobIDGenerationTime": now, "observedGeneration": item.Status.ObservedGeneration,
		"transitionTimes": object{"triggerTime": now, "initTime": nil, "finishedTime": nil},
	}})
	if err := admin.Status().Patch(w.Context(), item, client.RawPatch(types.MergePatchType, patch)); err != nil {
		w.Fatalf("set a job for deploy item %s: %v", name, err)
	}
	return jobID
}

// ask asks for an operation by annotation.
func (w *world) ask(name, operation string) {
	w.Helper()
	w.change(name, object{"metadata": object{"annotations": object{v1alpha1.OperationAnnotation: operation}}})
}

// change changes an item, apart from its status.
func (w *world) change(name string, change object) {
	w.Helper()
	if err := admin.Patch(w.Context(), w.named(name), client.RawPatch(types.MergePatchType, w.marshal(change))); err != nil {
		w.Fatalf("change deploy item %s: %v", name, err)
	}
}

func (w *world) named(name string) *v1alpha1.DeployItem {
	return &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: w.namespace}}
}

func (w *world) find(name string) (*v1alpha1.DeployItem, error) {
	item := w.named(name)
	return item, admin.Get(w.Context(), client.ObjectKeyFromObject(item), item)
}

// await waits until an item meets a condition and returns it.
func (w *world) await(name, what string, condition func(*v1alpha1.DeployItem) bool) (item *v1alpha1.DeployItem) {
	w.Helper()
	w.eventually(fmt.Sprintf("deploy item %s to be %s", name, what), func(context.Context) (string, error) {
		var err error
		if item, err = w.find(name); err != nil || condition(item) {
			return "", err
		}
		return describe(item), nil
	})
	return item
}

// finish waits until a job is finished, and checks the phase.
func (w *world) finish(name, jobID string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	w.Helper()
	item := w.await(name, "finished", func(i *v1alpha1.DeployItem) bool { return i.Status.JobIDFinished == jobID })
	if item.Status.Phase != phase {
		w.Errorf("deploy item %s: expected phase %s, but found %s", name, phase, describe(item))
	}
	return item
}

// awaitWord waits until an item says what contains a text.
func (w *world) awaitWord(name, text string) {
	w.Helper()
	w.await(name, fmt.Sprintf("saying %q", text), func(i *v1alpha1.DeployItem) bool {
		return slices.ContainsFunc(i.Status.Conditions, func(c v1alpha1.Condition) bool { return strings.Contains(c.Message, text) })
	})
}

// awaitGone waits until an item is deleted.
func (w *world) awaitGone(name string) {
	w.Helper()
	w.eventually(fmt.Sprintf("deploy item %s to be gone", name), func(context.Context) (string, error) {
		item, err := w.find(name)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return describe(item), err
	})
}

func describe(item *v1alpha1.DeployItem) string {
	text := fmt.Sprintf("phase %q, jobID %q, jobIDFinished %q", item.Status.Phase, item.Status.JobID, item.Status.JobIDFinished)
	if item.Status.LastError != nil {
		text += fmt.Sprintf(", last error %s: %s", item.Status.LastError.Reason, item.Status.LastError.Message)
	}
	return text
}

// revisions returns those of an item's release as "1 superseded", oldest first. There are never ten.
func (w *world) revisions(item string) []string {
	w.Helper()
	list := &corev1.SecretList{}
	err := admin.List(w.Context(), list, client.InNamespace(w.home(item)), client.MatchingLabels{"owner": "helm", "name": release})
	if err != nil {
		w.Fatal(err)
	}
	var all []string
	for _, secret := range list.Items {
		all = append(all, secret.Labels["version"]+" "+secret.Labels["status"])
	}
	slices.Sort(all)
	return all
}

// eventually waits for a condition, which returns "" when it holds and else what is there instead.
func (w *world) eventually(what string, condition func(ctx context.Context) (string, error)) {
	w.Helper()
	await.For(w.Context(), w, patience, what, condition)
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := admin.Create(w.Context(), o); err != nil {
		w.Fatalf("create %T: %v", o, err)
	}
}

func (w *world) write(path string, content []byte, mode os.FileMode) {
	w.Helper()
	if err := errors.Join(os.WriteFile(path, content, mode), os.Chmod(path, mode)); err != nil {
		w.Fatal(err)
	}
}

func (w *world) marshal(value any) []byte {
	w.Helper()
	out, err := json.Marshal(value)
	if err != nil {
		w.Fatal(err)
	}
	return out
}
