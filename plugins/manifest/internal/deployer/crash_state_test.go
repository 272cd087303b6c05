package deployer_test

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

func (w *world) roses() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.group(), Version: "v1", Resource: "roses"}
}

// labelled returns the objects that say that they belong to the item of the world.
func (w *world) labelled() []unstructured.Unstructured {
	w.Helper()
	own := owner.Label + "=" + w.Namespace + ".item"
	return w.list(own, configMaps, secrets, services, w.roses(), roles, namespaces, crds)
}

// list returns the objects that a label selector selects. A resource that is not served has none.
func (w *world) list(selector string, resources ...schema.GroupVersionResource) []unstructured.Unstructured {
	w.Helper()
	var all []unstructured.Unstructured
	for _, resource := range resources {
		list, err := w.Objects(resource).List(w.Context(), metav1.ListOptions{LabelSelector: selector})
		if err != nil && !apierrors.IsNotFound(err) {
			w.Fatalf("list %s: %v", resource.Resource, err)
		}
		if err == nil {
			all = append(all, list.Items...)
		}
	}
	return all
}

// state is what is the same after a job, whatever happened in between.
type state struct {
	// Objects are all of the world, whoever has made them, by kind and name.
	Objects map[string]object
	// Managed are the entries of the provider status, by kind and name.
	Managed map[string]object
	// Drifted tells whether the job has blamed others for what it has found.
	Drifted bool
	// Created says how often objects were created, by the paths of their resources.
	Created map[string]int
	// Patched are the paths of the objects that were patched.
	Patched map[string]bool
}

// state returns that of the life, as it would be in any namespace and at any time.
func (l *life) state() state {
	l.Helper()
	s := state{Objects: map[string]object{}, Managed: map[string]object{}, Created: map[string]int{}, Patched: map[string]bool{}}
	all := append(l.list("", configMaps, secrets, services, l.roses()), l.list(owner.Label+"="+l.Namespace+".item", roles, namespaces, crds)...)
	for _, o := range all {
		s.Objects[l.anywhere(o.GetKind()+" "+o.GetName())] = l.normal(o)
	}
	var status v1alpha2.ProviderStatus
	if saved := l.item.Status.ProviderStatus; saved != nil {
		mustParse(l, saved.Raw, &status)
	}
	s.Drifted = status.Drift != nil
	for _, m := range status.ManagedResources {
		s.Managed[l.anywhere(m.Resource.Kind+" "+m.Resource.Name)] = object{
			"policy": m.Policy, "uid": m.Resource.UID != "", "applied": m.Applied != "",
			"annotateBeforeDelete": m.AnnotateBeforeDelete, "patchBeforeDelete": m.PatchBeforeDelete,
		}
	}
	for key, times := range l.created {
		s.Created[l.anywhere(key)] = times
	}
	for path := range l.patched {
		s.Patched[l.anywhere(path)] = true
	}
	return s
}

// anywhere replaces the names of the world in a text.
func (w *world) anywhere(text string) string {
	return strings.ReplaceAll(text, w.Namespace, "NAMESPACE")
}

// normal returns an object without what differs between any two: times, counters, and what the API server draws by lot.
func (w *world) normal(o unstructured.Unstructured) object {
	w.Helper()
	for _, key := range []string{"uid", "resourceVersion", "creationTimestamp", "generation"} {
		unstructured.RemoveNestedField(o.Object, "metadata", key)
	}
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIP")
	unstructured.RemoveNestedField(o.Object, "spec", "clusterIPs")
	fields := o.GetManagedFields()
	for i := range fields {
		fields[i].Time = nil
	}
	slices.SortFunc(fields, func(a, b metav1.ManagedFieldsEntry) int {
		return strings.Compare(a.Manager+string(a.Operation)+a.Subresource, b.Manager+string(b.Operation)+b.Subresource)
	})
	o.SetManagedFields(fields)
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	if len(conditions) > 0 {
		for _, c := range conditions {
			maps.DeleteFunc(c.(object), func(key string, _ any) bool { return key == "lastTransitionTime" })
		}
		if err := unstructured.SetNestedSlice(o.Object, conditions, "status", "conditions"); err != nil {
			w.Fatal(err)
		}
	}
	document, err := json.Marshal(o.Object)
	if err != nil {
		w.Fatal(err)
	}
	var out object
	if err := json.Unmarshal([]byte(w.anywhere(string(document))), &out); err != nil {
		w.Fatal(err)
	}
	return out
}
