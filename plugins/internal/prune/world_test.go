package prune_test

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/dynamic"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestMain(m *testing.M) { os.Exit(plugintest.Main(m)) }

var (
	configMaps, secrets, namespaces = plugintest.ConfigMaps, plugintest.Secrets, plugintest.Namespaces
	roles, crds, apiServices        = plugintest.ClusterRoles, plugintest.CRDs, plugintest.APIServices

	kinds = map[schema.GroupVersionResource]string{
		configMaps: "ConfigMap", secrets: "Secret", namespaces: "Namespace", roles: "ClusterRole", crds: "CustomResourceDefinition",
		apiServices: "APIService", plugintest.Webhooks: "ValidatingWebhookConfiguration", plugintest.Services: "Service",
	}
)

const upstreamLabel = "example.org/deployitem"

// world is what one test plays in: a deploy item that objects belong to, and a client.
type world struct {
	*plugintest.World

	client *target.Client
	owner  owner.Owner
	lookup target.Lookup
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: plugintest.New(t)}
	w.client = w.Client(plugintest.Config())
	w.owner = owner.Owner{Namespace: w.Namespace, Name: "item", UpstreamLabel: upstreamLabel}
	return w
}

// in gives access to the objects of a resource in a namespace; empty for cluster-scoped ones.
func (w *world) in(resource schema.GroupVersionResource, namespace string) dynamic.ResourceInterface {
	return w.At(namespace).Objects(resource)
}

func (w *world) createNamespace(name string) entry {
	w.Helper()
	return w.create(namespaces, "", name, nil)
}

// entry is what is managed.
type entry = managedresource.ManagedResourceStatus

// object returns an object of the deploy item with further fields. A kind that is not among kinds is one of these.
func (w *world) object(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) *unstructured.Unstructured {
	w.Helper()
	o := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		o.Object[key] = value
	}
	o.SetAPIVersion(resource.GroupVersion().String())
	if kind, ok := kinds[resource]; ok {
		o.SetKind(kind)
	}
	o.SetNamespace(namespace)
	o.SetName(name)
	if o.GetLabels() == nil {
		o.SetLabels(w.owner.Labels())
	}
	return o
}

// create creates an object as it is made by object, and returns its entry.
func (w *world) create(resource schema.GroupVersionResource, namespace, name string, fields map[string]any) entry {
	w.Helper()
	created := w.At(namespace).Create(resource, w.object(resource, namespace, name, fields).Object)
	return entry{Policy: managedresource.PolicyManage, Resource: managedresource.ObjectReference{
		APIVersion: created.GetAPIVersion(), Kind: created.GetKind(), Namespace: namespace, Name: name, UID: created.GetUID(),
	}}
}

func (w *world) configMap(name string, finalizers ...string) entry {
	w.Helper()
	return w.create(configMaps, w.Namespace, name, withFinalizers(finalizers...))
}

func (w *world) role(name string, finalizers ...string) entry {
	w.Helper()
	return w.create(roles, "", w.Namespace+"-"+name, withFinalizers(finalizers...))
}

func withFinalizers(finalizers ...string) map[string]any {
	list := make([]any, 0, len(finalizers))
	for _, f := range finalizers {
		list = append(list, f)
	}
	return map[string]any{"metadata": map[string]any{"finalizers": list}}
}

const hold = "example.org/hold"

// crd defines a kind and returns the entry and how to get at its objects.
func (w *world) crd(kind string) (entry, schema.GroupVersionResource) {
	w.Helper()
	definition, resource := w.CRD(kind)
	e := w.create(crds, "", resource.Resource+"."+resource.Group, map[string]any{"spec": definition["spec"]})
	w.Eventually("the kind to be served", func() bool {
		_, err := w.Objects(resource).List(w.Context(), metav1.ListOptions{})
		return err == nil
	})
	return e, resource
}

// patch changes an object as somebody else.
func (w *world) patch(resource schema.GroupVersionResource, namespace, name, patch string, subresources ...string) {
	w.Helper()
	w.At(namespace).Patch(resource, name, patch, subresources...)
}

// delete deletes an object as somebody else and waits until it is gone.
func (w *world) delete(resource schema.GroupVersionResource, namespace, name string) {
	w.Helper()
	w.At(namespace).Delete(resource, name)
	w.Eventually(name+" to be gone", func() bool { return w.At(namespace).Get(resource, name) == nil })
}

// state tells what has become of an object: "there", "deleted" if it is being deleted, or "gone".
func (w *world) state(e entry) string {
	w.Helper()
	live := w.get(e)
	switch {
	case live == nil:
		return "gone"
	case live.GetDeletionTimestamp() != nil:
		return "deleted"
	default:
		return "there"
	}
}

// get returns the object of an entry; nil if there is none.
func (w *world) get(e entry) *unstructured.Unstructured {
	w.Helper()
	for resource, kind := range kinds {
		if kind != e.Resource.Kind {
			continue
		}
		return w.At(e.Resource.Namespace).Get(resource, e.Resource.Name)
	}
	w.Fatalf("do not know the kind %s", e.Resource.Kind)
	return nil
}

func (w *world) mustBe(state string, entries ...entry) {
	w.Helper()
	for _, e := range entries {
		if got := w.state(e); got != state {
			w.Errorf("expected %s %s to be %s, but it is %s", e.Resource.Kind, e.Resource.Name, state, got)
		}
	}
}

// groups parses groups from JSON; the empty text stands for none.
func (w *world) groups(document string) prune.Groups {
	w.Helper()
	var list []managedresource.DeletionGroup
	if document != "" {
		if err := json.Unmarshal([]byte(document), &list); err != nil {
			w.Fatal(err)
		}
	}
	groups, problems := prune.ParseGroups(list, field.NewPath("deletionGroups"))
	if len(problems) > 0 {
		w.Fatal(problems.ToAggregate())
	}
	return groups
}

func (w *world) deletion(groups string, entries ...entry) prune.Deletion {
	w.Helper()
	return prune.Deletion{
		Groups: w.groups(groups), Entries: entries, Owner: w.owner, Lookup: w.lookup, AsOf: time.Now(),
	}
}

func (w *world) run(d prune.Deletion) (prune.Result, error) {
	w.Helper()
	return prune.Run(w.Context(), w.client, d)
}

// mustRun is like run for a deletion without errors.
func (w *world) mustRun(d prune.Deletion) prune.Result {
	w.Helper()
	result, err := w.run(d)
	if err != nil {
		w.Fatalf("expected no error, but found: %v", err)
	}
	return result
}

// mustFinish is like mustRun for a deletion that is complete with this call.
func (w *world) mustFinish(d prune.Deletion) prune.Result {
	w.Helper()
	result := w.mustRun(d)
	if len(result.Waiting) > 0 {
		w.Fatalf("expected the deletion to be complete, but it waits for %q", result.Waiting)
	}
	if got := len(result.Gone) + len(result.Left); got != len(d.Entries) {
		w.Errorf("expected all %d entries to be gone or left, but found %+v", len(d.Entries), result)
	}
	return result
}

// mustWaitFor checks that there is one text about what is waited for, with these parts.
func (w *world) mustWaitFor(result prune.Result, parts ...string) {
	w.Helper()
	if len(result.Waiting) != 1 {
		w.Fatalf("expected one object to be waited for, but found %q", result.Waiting)
	}
	for _, part := range parts {
		if !strings.Contains(result.Waiting[0], part) {
			w.Errorf("expected to wait for %q, but found %q", part, result.Waiting[0])
		}
	}
}

func gone(result prune.Result) []string {
	var keys []string
	for _, key := range result.Gone {
		keys = append(keys, key.String())
	}
	slices.Sort(keys)
	return keys
}

func left(result prune.Result) []string {
	var texts []string
	for _, l := range result.Left {
		texts = append(texts, l.Key.String()+": "+l.Why)
	}
	slices.Sort(texts)
	return texts
}

// requested returns the requests about objects since they were asked for last, as "METHOD name".
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
