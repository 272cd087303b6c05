package observe_test

import (
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/observe"
	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

type fields = map[string]any

var configMaps, deployments = plugintest.ConfigMaps, plugintest.Deployments

// byOthers are the labels of the objects that another client writes.
var byOthers = labels.Set{"app.kubernetes.io/managed-by": "Another"}

// world is what one test plays in: an inventory of objects that another client writes.
type world struct {
	*plugintest.World

	client    *target.Client
	inventory map[object.Key]managedresource.ManagedResourceStatus
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t), inventory: map[object.Key]managedresource.ManagedResourceStatus{}}
	w.client = w.Client(plugintest.Config())
	return w
}

// planOfOthers returns the plan of objects that another client writes, some of them without a namespace.
func (w *world) planOfOthers(all ...fields) *apply.Plan {
	w.Helper()
	var manifests []desired.Manifest
	for _, o := range all {
		manifests = append(manifests, desired.Manifest{
			Manifest:         object.Manifest{Object: &unstructured.Unstructured{Object: copyOf(o)}},
			DefaultNamespace: w.Namespace,
		})
	}
	plan, err := apply.NewPlan(w.Context(), w.client, manifests, owner.Owner{}, time.Now())
	if err != nil {
		w.Fatal(err)
	}
	return plan
}

// write creates an object as another client does, with a label of its own.
func (w *world) write(resource schema.GroupVersionResource, o fields) {
	w.Helper()
	labelled := unstructured.Unstructured{Object: copyOf(o)}
	labelled.SetLabels(byOthers)
	w.Create(resource, labelled.Object)
}

func (w *world) run(plan *apply.Plan) (observe.Result, error) {
	recorded := func(key object.Key) (e managedresource.ManagedResourceStatus, ok bool) {
		e, ok = w.inventory[key]
		return e, ok
	}
	foreign := func(managedresource.ManagedResourceStatus, metav1.Object) string { return "" }
	return observe.Run(w.Context(), w.client, plan, recorded, foreign, byOthers)
}

// observe does what the deployer does in one call, and returns what has drifted.
func (w *world) observe(all ...fields) []string {
	w.Helper()
	result, err := w.run(w.planOfOthers(all...))
	if err != nil {
		w.Fatal(err)
	}
	w.note(result.Applied)
	var drifts []string
	for _, d := range result.Drift {
		what := ": " + d.String()
		if d.Missing {
			what = " is missing"
		}
		drifts = append(drifts, d.Key.Kind+" "+d.Key.Name+what)
	}
	return drifts
}

// mustObserve checks what has drifted.
func (w *world) mustObserve(want []string, all ...fields) {
	w.Helper()
	if diff := cmp.Diff(want, w.observe(all...)); diff != "" {
		w.Errorf("the drift: -want +got:\n%s", diff)
	}
}

func answer(r *http.Request, status int, contentType, body string) *http.Response {
	return &http.Response{
		StatusCode: status, Header: http.Header{"Content-Type": {contentType}}, Request: r,
		Body: io.NopCloser(strings.NewReader(body)),
	}
}

func (w *world) note(applied []apply.Applied) {
	for _, a := range applied {
		e := w.inventory[a.Key]
		e.Resource.UID, e.Applied = a.Live.GetUID(), a.LastAppliedHash
		w.inventory[a.Key] = e
	}
}

// refuse has all requests with a method answered as if they were not permitted.
func (w *world) refuse(method string) {
	w.Requests.Answer(func(r *http.Request) (*http.Response, error) {
		if r.Method == method {
			return plugintest.Forbidden(r, "no"), nil
		}
		return nil, nil
	})
}

// mustRequest checks the requests since the last check.
func (w *world) mustRequest(want ...string) {
	w.Helper()
	got := slices.Sorted(slices.Values(w.Requests.Verbs()))
	if !slices.Equal(got, slices.Sorted(slices.Values(want))) {
		w.Errorf("expected the requests %v in any order, but found %v", want, got)
	}
}

func copyOf(o fields) fields { return (&unstructured.Unstructured{Object: o}).DeepCopy().Object }
