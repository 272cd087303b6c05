package node

import (
	"context"
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/uuid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

type object = map[string]any

const (
	succeeded = v1alpha1.DeployItemPhaseSucceeded
	failed    = v1alpha1.DeployItemPhaseFailed
)

// itemTypes are the types of items by the versions of their configurations.
var itemTypes = map[string]v1alpha1.DeployItemType{
	containerv1alpha1.GroupVersion.String():            containerv1alpha1.Type,
	helmv1alpha1.GroupVersion.String():                 helmv1alpha1.Type,
	v1alpha2.GroupVersion.String():                     "landscaper.gardener.cloud/kubernetes-manifest",
	"mock.deployer.landscaper.gardener.cloud/v1alpha1": "landscaper.gardener.cloud/mock",
	"example.org/v1":                                   "example.org/hello",
}

// world is what a test plays in: a namespace with items and a Target, which is the node's cluster.
type world struct {
	*testing.T

	namespace string
	target    string // the name of the Target
	// released are the Pods that were told to be ready.
	released map[string]bool
}

// newWorld creates a namespace with a Context and a Target.
func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, namespace: "items-" + uuid.NewString()[:8], target: "target", released: map[string]bool{}}
	w.create(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: w.namespace}})
	w.create(&v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: v1alpha1.DefaultContextName, Namespace: w.namespace}})
	content, err := testenv.InlineKubeconfig(node.Config)
	if err != nil {
		t.Fatal(err)
	}
	target, err := testenv.NewTarget(w.namespace, w.target, content)
	if err != nil {
		t.Fatal(err)
	}
	w.create(target)
	return w
}

// in returns the same world for a subtest.
func (w *world) in(t *testing.T) *world {
	return &world{T: t, namespace: w.namespace, target: w.target}
}

// newItem is an item as it is created, of the type that its configuration is for.
func (w *world) newItem(name string, config object, change ...func(*v1alpha1.DeployItem)) *v1alpha1.DeployItem {
	w.Helper()
	itemType := itemTypes[config["apiVersion"].(string)]
	item := w.named(name)
	item.Annotations = map[string]string{
		v1alpha1.DeployerTypeAnnotation: string(itemType), v1alpha1.DeployerTargetNameAnnotation: w.target,
	}
	item.Spec = v1alpha1.DeployItemSpec{
		Type: itemType, Context: v1alpha1.DefaultContextName, Config: &runtime.RawExtension{Raw: w.marshal(config)},
		Target: &v1alpha1.ObjectReference{Name: w.target, Namespace: w.namespace},
	}
	for _, c := range change {
		c(item)
	}
	return item
}

// put creates an item, or gives it another configuration, and sets a job, which it returns.
func (w *world) put(name string, config object, change ...func(*v1alpha1.DeployItem)) (jobID string) {
	w.Helper()
	wanted := w.newItem(name, config, change...)
	item, err := w.find(name)
	if apierrors.IsNotFound(err) {
		w.create(wanted)
	} else if err == nil {
		err = testenv.Change(w.Context(), admin, item, func() { item.Spec = wanted.Spec })
	}
	if client.IgnoreNotFound(err) != nil {
		w.Fatal(err)
	}
	return w.setJob(name)
}

func timeout(d v1alpha1.Duration) func(*v1alpha1.DeployItem) {
	return func(i *v1alpha1.DeployItem) { i.Spec.Timeout = d }
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
	if err == nil {
		jobID, err = testenv.SetJob(w.Context(), admin, item)
	}
	if err != nil {
		w.Fatal(err)
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

func (w *world) uid(name string) string {
	w.Helper()
	item, err := w.find(name)
	if err != nil {
		w.Fatal(err)
	}
	return string(item.UID)
}

// await waits until an item meets a condition and returns it.
func (w *world) await(name, what string, condition func(*v1alpha1.DeployItem) bool) (item *v1alpha1.DeployItem) {
	w.Helper()
	w.eventually(fmt.Sprintf("deploy item %s to be %s", name, what), func(context.Context) (string, error) {
		var err error
		if item, err = w.find(name); err != nil || condition(item) {
			return "", err
		}
		return testenv.Describe(item), nil
	})
	return item
}

// awaitWord waits until an item says what contains a text.
func (w *world) awaitWord(name, text string) {
	w.Helper()
	w.await(name, fmt.Sprintf("saying %q", text), func(i *v1alpha1.DeployItem) bool {
		return strings.Contains(testenv.Describe(i), text)
	})
}

// finish waits until a job is finished, and checks the phase.
func (w *world) finish(name, jobID string, phase v1alpha1.DeployItemPhase) *v1alpha1.DeployItem {
	w.Helper()
	item := w.await(name, "finished", func(i *v1alpha1.DeployItem) bool { return i.Status.JobIDFinished == jobID })
	if item.Status.Phase != phase {
		w.Fatalf("deploy item %s: expected phase %s, but found %s", name, phase, testenv.Describe(item))
	}
	return item
}

// succeed runs an item to its success and returns its exports.
func (w *world) succeed(name string, config object, change ...func(*v1alpha1.DeployItem)) (exports object) {
	w.Helper()
	return w.exports(w.finish(name, w.put(name, config, change...), succeeded))
}

// succeedAlone creates an item for a host that sets the jobs itself, waits for its success and returns its exports.
func (w *world) succeedAlone(name string, config object, change ...func(*v1alpha1.DeployItem)) (exports object) {
	w.Helper()
	w.create(w.newItem(name, config, change...))
	return w.exports(w.await(name, "Succeeded", func(i *v1alpha1.DeployItem) bool { return i.Status.Phase == succeeded }))
}

// fail runs an item to its failure, and returns the reason and the message of the error.
func (w *world) fail(name string, config object, change ...func(*v1alpha1.DeployItem)) (reason, message string) {
	w.Helper()
	item := w.finish(name, w.put(name, config, change...), failed)
	if item.Status.LastError == nil {
		w.Fatalf("deploy item %s has failed without an error", name)
	}
	return item.Status.LastError.Reason, item.Status.LastError.Message
}

// exports returns what an item has exported; nil for nothing.
func (w *world) exports(item *v1alpha1.DeployItem) object {
	w.Helper()
	exports, err := testenv.Exports(w.Context(), admin, item)
	if err != nil {
		w.Fatal(err)
	}
	return exports
}

// awaitGone waits until an item is deleted.
func (w *world) awaitGone(name string) {
	w.Helper()
	w.eventually(fmt.Sprintf("deploy item %s to be gone", name), func(context.Context) (string, error) {
		item, err := w.find(name)
		if apierrors.IsNotFound(err) {
			return "", nil
		}
		return testenv.Describe(item), err
	})
}

// eventually waits for a condition, which returns "" when it holds and else what is there instead. What is not there
// yet is waited for.
func (w *world) eventually(what string, condition func(ctx context.Context) (string, error)) {
	w.Helper()
	await.For(w.Context(), w, patience, what, func(ctx context.Context) (string, error) {
		found, err := condition(ctx)
		if apierrors.IsNotFound(err) {
			return err.Error(), nil
		}
		return found, err
	})
}

func (w *world) create(o client.Object) {
	w.Helper()
	if err := admin.Create(w.Context(), o); err != nil {
		w.Fatal(err)
	}
}

func (w *world) get(o client.Object) {
	w.Helper()
	if err := admin.Get(w.Context(), client.ObjectKeyFromObject(o), o); err != nil {
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

// letGo lets containers go on that await a file.
func (w *world) letGo(file string) {
	w.Helper()
	w.write(filepath.Join(marks, file), nil, 0o644)
}
