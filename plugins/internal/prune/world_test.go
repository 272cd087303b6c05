package prune_test

import (
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var kinds = map[string]plugintest.Resource{
	"ConfigMap": plugintest.ConfigMaps, "Secret": plugintest.Secrets, "Service": plugintest.Services,
	"Namespace": plugintest.Namespaces, "ClusterRole": plugintest.ClusterRoles,
	"CustomResourceDefinition": plugintest.CRDs, "APIService": plugintest.APIServices,
	"ValidatingWebhookConfiguration": plugintest.Webhooks,
}

const (
	upstreamLabel = "example.org/deployitem"
	hold          = "example.org/hold"
	anotherUID    = "7f5c0e5e-0000-0000-0000-000000000000"
)

// world is a deploy item with its objects, and a client. In texts NS is the namespace.
type world struct {
	*plugintest.World

	client *target.Client
	owner  owner.Owner
	lookup target.Lookup
	kinds  map[string]plugintest.Resource
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t), kinds: maps.Clone(kinds)}
	w.client = w.Client(plugintest.Config())
	w.owner = owner.Owner{Namespace: w.Namespace, Name: "item", UpstreamLabel: upstreamLabel}
	return w
}

// parse reads YAML.
func (w *world) parse(text string, into any) {
	w.Helper()
	if err := yaml.UnmarshalStrict([]byte(strings.ReplaceAll(text, "NS", w.Namespace)), into); err != nil {
		w.Fatal(err)
	}
}

// entry is an object as it is managed.
type entry struct {
	managedresource.ManagedResourceStatus

	in dynamic.ResourceInterface
}

// create creates an object of the deploy item with further fields, in YAML. Its name may be NAMESPACE/NAME.
func (w *world) create(kind, name, fields string) *entry {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	w.parse(fields, &o.Object)
	namespace, name, found := strings.Cut(strings.ReplaceAll(name, "NS", w.Namespace), "/")
	if !found {
		namespace, name = w.Namespace, namespace
	}
	resource := w.kinds[kind]
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind(kind)
	o.SetName(name)
	if o.GetLabels() == nil {
		o.SetLabels(w.owner.Labels())
	}
	o = w.At(namespace).Create(resource, o.Object)
	e := &entry{in: w.At(namespace).Objects(resource)}
	e.Policy = managedresource.PolicyManage
	e.Resource = managedresource.ObjectReference{
		APIVersion: o.GetAPIVersion(), Kind: kind, Namespace: o.GetNamespace(), Name: name, UID: o.GetUID(),
	}
	return e
}

// define creates the definition of a kind. Its plural may be irregular.
func (w *world) define(kind, plural string) *entry {
	w.Helper()
	definition, resource := w.CRD(kind)
	spec, _ := definition["spec"].(map[string]any)
	if names, ok := spec["names"].(map[string]any); ok && plural != "" {
		names["plural"], resource.Resource = plural, plural
	}
	text, err := yaml.Marshal(map[string]any{"spec": spec})
	if err != nil {
		w.Fatal(err)
	}
	w.kinds[kind] = resource
	e := w.create("CustomResourceDefinition", resource.Resource+"."+resource.Group, string(text))
	w.Eventually("the kind to be served", func() bool {
		_, err := w.Objects(resource).List(w.Context(), metav1.ListOptions{})
		return err == nil
	})
	return e
}

// patch changes an object behind the deployer's back.
func (w *world) patch(e *entry, patch string, subresources ...string) {
	w.Helper()
	resource := w.kinds[e.Resource.Kind]
	var content map[string]any
	w.parse(patch, &content)
	document, err := (&unstructured.Unstructured{Object: content}).MarshalJSON()
	if err != nil {
		w.Fatal(err)
	}
	w.At(e.Resource.Namespace).Patch(resource, e.Resource.Name, string(document), subresources...)
}

// held sets a finalizer.
func (w *world) held(e *entry) *entry {
	w.Helper()
	w.patch(e, "metadata: {finalizers: ["+hold+"]}")
	return e
}

func (w *world) release(e *entry) {
	w.Helper()
	w.patch(e, "metadata: {finalizers: null}")
}

func (w *world) remove(e *entry) {
	w.Helper()
	w.At(e.Resource.Namespace).Delete(w.kinds[e.Resource.Kind], e.Resource.Name)
}

// get returns the object of an entry; nil if there is none.
func (w *world) get(e *entry) *unstructured.Unstructured {
	w.Helper()
	return w.At(e.Resource.Namespace).Get(w.kinds[e.Resource.Kind], e.Resource.Name)
}

// state is "there", "deleted" for an object under deletion, or "gone".
func (w *world) state(e *entry) string {
	w.Helper()
	switch live := w.get(e); {
	case live == nil:
		return "gone"
	case live.GetDeletionTimestamp() != nil:
		return "deleted"
	default:
		return "there"
	}
}

func (w *world) mustBe(state string, entries ...*entry) {
	w.Helper()
	for _, e := range entries {
		if got := w.state(e); got != state {
			w.Errorf("expected %s %s to be %s, but it is %s", e.Resource.Kind, e.Resource.Name, state, got)
		}
	}
}

// deletion parses groups; the empty text stands for none.
func (w *world) deletion(groups string, entries ...*entry) prune.Deletion {
	w.Helper()
	var list []managedresource.DeletionGroup
	w.parse(groups, &list)
	parsed, problems := prune.ParseGroups(list, field.NewPath("deletionGroups"))
	if len(problems) > 0 {
		w.Fatal(problems.ToAggregate())
	}
	d := prune.Deletion{Groups: parsed, Owner: w.owner, Lookup: w.lookup, AsOf: time.Now()}
	for _, e := range entries {
		d.Entries = append(d.Entries, e.ManagedResourceStatus)
	}
	return d
}

func (w *world) run(d prune.Deletion) (prune.Result, error) {
	return prune.Run(w.Context(), w.client, d)
}

func (w *world) mustRun(d prune.Deletion) prune.Result {
	w.Helper()
	result, err := w.run(d)
	if err != nil {
		w.Fatalf("expected no error, but found: %v", err)
	}
	return result
}

// mustFinish is mustRun for a deletion that is complete with this call.
func (w *world) mustFinish(d prune.Deletion) prune.Result {
	w.Helper()
	result := w.mustRun(d)
	if got := len(result.Gone) + len(result.Left); len(result.Waiting) > 0 || got != len(d.Entries) {
		w.Fatalf("expected the deletion to be complete with all %d entries, but found %+v", len(d.Entries), result)
	}
	return result
}

// requested returns the requests about objects since its last call, as "METHOD name".
func (w *world) requested() []string {
	var all []string
	for _, request := range w.Requests.Take() {
		method, path, _ := strings.Cut(request, " ")
		if strings.Count(path, "/") > 3 {
			all = append(all, method+" "+path[strings.LastIndex(path, "/")+1:])
		}
	}
	return all
}

// fail lets the requests for an object fail.
func (w *world) fail(methods, name string) {
	w.Requests.Fail(func(r *http.Request) error {
		if slices.Contains(strings.Split(methods, ","), r.Method) && strings.HasSuffix(r.URL.Path, "/"+name) {
			return errors.New("cut off")
		}
		return nil
	})
}

// all is a group which deletes all objects of a kind of v1 in the namespace, with further fields of the group.
func all(kind, fields string) string {
	const group = "[{customResourceGroup: {deleteAllResources: true, resources: [{%s}]%s}}]"
	return fmt.Sprintf(group, "apiVersion: v1, kind: "+kind+", namespaces: [NS]", fields)
}
