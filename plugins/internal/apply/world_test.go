package apply_test

import (
	"maps"
	"os"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/await"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// cluster is the API server that all tests of this package share.
var cluster *rest.Config

func TestMain(m *testing.M) {
	os.Exit(testenv.RunOnAPIServer(m, func(e *envtest.Environment) { cluster = e.Config }))
}

var (
	configMaps  = schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}
	secrets     = schema.GroupVersionResource{Version: "v1", Resource: "secrets"}
	namespaces  = schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}
	services    = schema.GroupVersionResource{Version: "v1", Resource: "services"}
	deployments = schema.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"}
	jobs        = schema.GroupVersionResource{Group: "batch", Version: "v1", Resource: "jobs"}
	definitions = schema.GroupVersionResource{
		Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions",
	}
	webhooks = schema.GroupVersionResource{
		Group: "admissionregistration.k8s.io", Version: "v1", Resource: "validatingwebhookconfigurations",
	}
)

const upstreamLabel = "manifest.deployer.landscaper.gardener.cloud/deployitem"

// world is what one test plays in: a deploy item with its ledger, a client of its own and a namespace on the shared cluster.
type world struct {
	*testing.T

	by        owner.Owner
	client    *targetclient.Client
	ledger    map[object.Key]managedresource.ManagedResourceStatus
	namespace string
	requests  *requestLog
	admin     dynamic.Interface
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := connect(t)
	w.namespace = w.createNamespace().GetName()
	w.beItem("item")
	return w
}

// in returns the world of a subtest: the same namespace and deploy item, but a client and a ledger of its own.
func (w *world) in(t *testing.T) *world {
	t.Helper()
	sub := connect(t)
	sub.namespace = w.namespace
	sub.beItem(w.by.Name)
	return sub
}

func connect(t *testing.T) *world {
	t.Helper()
	w := &world{T: t, requests: &requestLog{}}
	targets := targetclient.NewCache("test", targetclient.WrapTransport(w.requests.wrap), targetclient.RateLimit(0, 0))
	var err error
	if w.client, err = targets.Get(kubeconfig(t)); err != nil {
		t.Fatal(err)
	}
	if w.admin, err = dynamic.NewForConfig(cluster); err != nil {
		t.Fatal(err)
	}
	return w
}

func (w *world) createNamespace() *unstructured.Unstructured {
	w.Helper()
	return w.create(namespaces, fields{"apiVersion": "v1", "kind": "Namespace", "metadata": fields{"generateName": "test-"}})
}

// beItem changes to another deploy item, which has applied nothing yet.
func (w *world) beItem(name string) {
	w.by = owner.Owner{Namespace: w.namespace, Name: name, UpstreamLabel: upstreamLabel}
	w.ledger = map[object.Key]managedresource.ManagedResourceStatus{}
}

func kubeconfig(t *testing.T) []byte {
	t.Helper()
	content, err := testenv.InlineKubeconfig(cluster)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// plan returns the plan of the manifests, which have paths then.
func (w *world) plan(manifests ...apply.Manifest) (*apply.Plan, error) {
	for i := range manifests {
		manifests[i].Settings = field.NewPath("manifests").Index(i)
		manifests[i].Path = manifests[i].Settings.Child("manifest")
	}
	return apply.NewPlan(w.Context(), w.client, manifests, w.by, time.Now())
}

func (w *world) mustPlan(manifests ...apply.Manifest) *apply.Plan {
	w.Helper()
	plan, err := w.plan(manifests...)
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

// run does what a deployer does with package apply in one call, but for the patches.
func (w *world) run(manifests ...apply.Manifest) (apply.Result, error) {
	w.Helper()
	plan := w.mustPlan(manifests...)
	before := maps.Clone(w.ledger)
	for _, item := range plan.Items() {
		e := item.Entry()
		e.Resource.UID = before[item.Key].Resource.UID
		if known := before[item.Key].Applied; !item.Stale(known) {
			e.Applied = known
		}
		w.ledger[item.Key] = e
	}
	result, err := apply.Run(w.Context(), w.client, plan, func(k object.Key) (managedresource.ManagedResourceStatus, bool) {
		e, ok := before[k]
		return e, ok
	})
	w.note(result.Applied)
	for _, s := range result.Skipped {
		delete(w.ledger, s.Key)
	}
	return result, err
}

func (w *world) note(applied []apply.Applied) {
	for _, a := range applied {
		e := w.ledger[a.Key]
		e.Resource.UID, e.Applied = a.Live.GetUID(), a.Memo
		w.ledger[a.Key] = e
	}
}

// mustRun applies the manifests and makes the patches.
func (w *world) mustRun(manifests ...apply.Manifest) apply.Result {
	w.Helper()
	result, err := w.run(manifests...)
	if err != nil || len(result.Waiting) > 0 {
		w.Fatalf("expected success, but found the error %v, waiting for %v", err, result.Waiting)
	}
	done, err := apply.Patch(w.Context(), w.client, result.Applied)
	if err != nil {
		w.Fatalf("patch: %v", err)
	}
	w.note(done)
	return result
}

func (w *world) diff(manifests ...apply.Manifest) []sdk.Change {
	w.Helper()
	changes, err := apply.Diff(w.Context(), w.client, w.mustPlan(manifests...), func(k object.Key) (managedresource.ManagedResourceStatus, bool) {
		e, ok := w.ledger[k]
		return e, ok
	})
	if err != nil {
		w.Fatalf("diff: %v", err)
	}
	return changes
}

// mustFail checks an error: its reason, whether it is the user's to mend, and parts of its text.
func (w *world) mustFail(err error, reason string, configuration bool, parts ...string) {
	w.Helper()
	if err == nil {
		w.Fatal("expected an error")
	}
	known := asError(err)
	if known == nil || known.Reason != reason {
		w.Errorf("expected the reason %s, but found %+v in %v", reason, known, err)
	}
	if (len(sdk.Codes(err)) > 0) != configuration {
		w.Errorf("expected a configuration problem: %t, but found the codes %v of %v", configuration, sdk.Codes(err), err)
	}
	for _, part := range parts {
		if !strings.Contains(err.Error(), part) {
			w.Errorf("expected an error with %q, but found: %v", part, err)
		}
	}
}

func (w *world) objects(resource schema.GroupVersionResource) dynamic.ResourceInterface {
	if resource == namespaces || resource == webhooks {
		return w.admin.Resource(resource)
	}
	return w.admin.Resource(resource).Namespace(w.namespace)
}

// get returns an object that must exist.
func (w *world) get(resource schema.GroupVersionResource, name string) *unstructured.Unstructured {
	w.Helper()
	o, err := w.objects(resource).Get(w.Context(), name, metav1.GetOptions{})
	if err != nil {
		w.Fatalf("get %s %s: %v", resource.Resource, name, err)
	}
	return o
}

// create creates an object behind the deployer's back.
func (w *world) create(resource schema.GroupVersionResource, o fields) *unstructured.Unstructured {
	w.Helper()
	created, err := w.objects(resource).Create(w.Context(), &unstructured.Unstructured{Object: o}, metav1.CreateOptions{FieldManager: "somebody"})
	if err != nil {
		w.Fatalf("create %s: %v", resource.Resource, err)
	}
	return created
}

// patch changes an object behind the deployer's back.
func (w *world) patch(resource schema.GroupVersionResource, name, patch string) {
	w.Helper()
	_, err := w.objects(resource).Patch(w.Context(), name, types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"})
	if err != nil {
		w.Fatalf("patch %s %s: %v", resource.Resource, name, err)
	}
}

func (w *world) delete(resource schema.GroupVersionResource, name string) {
	w.Helper()
	if err := w.objects(resource).Delete(w.Context(), name, metav1.DeleteOptions{}); err != nil {
		w.Fatalf("delete %s %s: %v", resource.Resource, name, err)
	}
}

// eventually waits for what others do.
func (w *world) eventually(what string, done func() bool) {
	w.Helper()
	await.That(w, 30*time.Second, what, done)
}

func nothingRecorded(object.Key) (e managedresource.ManagedResourceStatus, ok bool) { return e, false }
