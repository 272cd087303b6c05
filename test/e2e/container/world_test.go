package container

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

type object = map[string]any

const targetName = "target"

// world is what a test plays in: a namespace with items. All worlds share the node and what runs on it, and one host unless they start their own.
type world struct {
	*testing.T

	namespace string
}

// newWorld creates a namespace with a Target, and makes sure that there is a host.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := emptyWorld(t)
	sharedHost(t)
	return w
}

// emptyWorld is newWorld without a host.
func emptyWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, namespace: "items-" + uuid.NewString()[:8]}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.create(&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: w.namespace}})
	content, err := testenv.GrantContainerRights(t.Context(), admin, node.Config, w.namespace)
	if err != nil {
		t.Fatal(err)
	}
	w.create(&v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: targetName, Namespace: w.namespace},
		Spec: v1alpha1.TargetSpec{
			Type:          v1alpha1.KubernetesClusterTargetType,
			Configuration: &runtime.RawExtension{Raw: w.marshal(object{"kubeconfig": string(content)})},
		},
	})
	return w
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world { return &world{T: t, namespace: w.namespace} }

// marks is a directory of the node into which containers write that they have run; see the action mark of the image.
var marks = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "marks-")
	if err == nil {
		err = os.Chmod(dir, 0o777)
	}
	return dir, err
})

// stepConfig is a provider configuration that runs the image of the tests with these arguments.
func stepConfig(args ...string) object {
	return object{
		"apiVersion": containerv1alpha1.GroupVersion.String(), "kind": containerv1alpha1.ProviderConfigurationKind,
		"image": stepImage, "args": args,
	}
}

// with returns a configuration with more fields.
func with(config object, more object) object {
	config = maps.Clone(config)
	maps.Copy(config, more)
	return config
}

// put creates an item, or gives it another configuration, and sets a job, which it returns.
func (w *world) put(name string, config object, change ...func(*v1alpha1.DeployItem)) (jobID string) {
	w.Helper()
	item, err := w.find(name)
	missing := apierrors.IsNotFound(err)
	if err != nil && !missing {
		w.Fatal(err)
	}
	how := func() {
		item.Spec.Config = &runtime.RawExtension{Raw: w.marshal(config)}
		for _, c := range change {
			c(item)
		}
	}
	if missing {
		item = w.named(name)
		item.Annotations = map[string]string{v1alpha1.DeployerTypeAnnotation: string(containerv1alpha1.Type)}
		item.Spec = v1alpha1.DeployItemSpec{Type: containerv1alpha1.Type, Context: v1alpha1.DefaultContextName}
		how()
		w.create(item)
	} else if err := testenv.Change(w.Context(), admin, item, how); err != nil {
		w.Fatal(err)
	}
	return w.setJob(name)
}

func timeout(d v1alpha1.Duration) func(*v1alpha1.DeployItem) {
	return func(i *v1alpha1.DeployItem) { i.Spec.Timeout = d }
}

func onTarget(i *v1alpha1.DeployItem) {
	i.Annotations[v1alpha1.DeployerTargetNameAnnotation] = targetName
	i.Spec.Target = &v1alpha1.ObjectReference{Name: targetName, Namespace: i.Namespace}
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

// annotate sets an annotation of an item.
func (w *world) annotate(name, key, value string) {
	w.Helper()
	patch := w.marshal(object{"metadata": object{"annotations": object{key: value}}})
	if err := admin.Patch(w.Context(), w.named(name), client.RawPatch(types.MergePatchType, patch)); err != nil {
		w.Fatalf("annotate deploy item %s: %v", name, err)
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
		w.Fatalf("deploy item %s: expected phase %s, but found %s", name, phase, describe(item))
	}
	return item
}

// succeed runs an item to its success and returns its exports.
func (w *world) succeed(name string, config object, change ...func(*v1alpha1.DeployItem)) (exports object) {
	w.Helper()
	item := w.finish(name, w.put(name, config, change...), v1alpha1.DeployItemPhaseSucceeded)
	return w.exports(item)
}

// fail runs an item to its failure, and returns the message and the reason of the error.
func (w *world) fail(name string, config object, change ...func(*v1alpha1.DeployItem)) (reason, message string) {
	w.Helper()
	item := w.finish(name, w.put(name, config, change...), v1alpha1.DeployItemPhaseFailed)
	if item.Status.LastError == nil {
		w.Fatalf("deploy item %s has failed without an error", name)
	}
	return item.Status.LastError.Reason, item.Status.LastError.Message
}

// exports returns what an item has exported; nil for nothing.
func (w *world) exports(item *v1alpha1.DeployItem) object {
	w.Helper()
	if item.Status.ExportReference == nil {
		return nil
	}
	secret := &corev1.Secret{}
	key := types.NamespacedName{Namespace: item.Namespace, Name: item.Status.ExportReference.Name}
	if err := admin.Get(w.Context(), key, secret); err != nil {
		w.Fatal(err)
	}
	var exports object
	if err := json.Unmarshal(secret.Data["config"], &exports); err != nil {
		w.Fatal(err)
	}
	return exports
}

// awaitRunning waits until a job says that it waits for main.
func (w *world) awaitRunning(name, jobID string) {
	w.Helper()
	w.await(name, "waiting for main", func(i *v1alpha1.DeployItem) bool {
		said := describe(i)
		return i.Status.JobID == jobID && strings.Contains(said, "container main of Pod "+podNamespace+"/") && strings.Contains(said, "has run since")
	})
}

// gate is the name of the file that letGo creates.
func (w *world) gate(name string) string { return w.namespace + "-" + name }

// gated is stepConfig of an item whose main marks that it has run, and then waits for letGo.
func (w *world) gated(name string, args ...string) object {
	return stepConfig(append([]string{"mark", "--", "await", "/marks/" + w.gate(name), "--"}, args...)...)
}

// letGo lets main of an item go on that was gated.
func (w *world) letGo(name string) {
	w.Helper()
	dir, err := marks()
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, w.gate(name)), nil, 0o644)
	}
	if err != nil {
		w.Fatal(err)
	}
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

// pod returns the Pod of an item's run, once there is one that meets a condition.
func (w *world) pod(name, what string, condition func(*corev1.Pod) bool) *corev1.Pod {
	w.Helper()
	item, err := w.find(name)
	if err != nil {
		w.Fatal(err)
	}
	var found *corev1.Pod
	w.eventually(fmt.Sprintf("a Pod of deploy item %s to be %s", name, what), func(ctx context.Context) (string, error) {
		pods := &corev1.PodList{}
		err := admin.List(ctx, pods, client.InNamespace(podNamespace), client.MatchingLabels{"container.pergola.dev/item": string(item.UID)})
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(pods.Items, func(p corev1.Pod) bool { return condition(&p) })
		if i < 0 {
			return fmt.Sprintf("%d Pods", len(pods.Items)), nil
		}
		found = &pods.Items[i]
		return "", nil
	})
	return found
}

// running tells whether main runs.
func running(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.Status.ContainerStatuses, func(c corev1.ContainerStatus) bool { return c.State.Running != nil })
}

func describe(item *v1alpha1.DeployItem) string {
	text := fmt.Sprintf("phase %q, jobID %q, jobIDFinished %q", item.Status.Phase, item.Status.JobID, item.Status.JobIDFinished)
	for _, c := range item.Status.Conditions {
		text += fmt.Sprintf(", %s: %s", c.Type, c.Message)
	}
	if item.Status.LastError != nil {
		text += fmt.Sprintf(", last error %s: %s", item.Status.LastError.Reason, item.Status.LastError.Message)
	}
	return text
}

// eventually waits for a condition, which returns "" when it holds and else what is there instead.
func (w *world) eventually(what string, condition func(ctx context.Context) (string, error)) {
	w.Helper()
	await.For(w.Context(), w, patience, what, condition)
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := admin.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) marshal(v any) []byte {
	w.Helper()
	content, err := json.Marshal(v)
	if err != nil {
		w.Fatal(err)
	}
	return content
}
