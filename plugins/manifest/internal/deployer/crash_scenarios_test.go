package deployer_test

import (
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// scenario is a job that something happens to in the middle.
type scenario struct {
	name, reason string
	// before is the configuration of a job that was done before; nil for none.
	before func(w *world) object
	// job is the configuration of the job; for a deletion, that of the item.
	job func(w *world) object
	// do defaults to a reconcile.
	do plugintest.Operation
}

func crashScenarios() []scenario {
	return []scenario{
		{
			name:   "create mixed kinds",
			reason: "objects are created in stages, and the kind of one comes with the item",
			job: func(w *world) object {
				return configOf(
					entry(w.crd("Rose"), nil),
					entry(w.custom("Rose", "climbing"), nil),
					entry(w.clusterRole(), nil),
					entry(w.ConfigMap("annotated", object{"a": "1"}),
						object{"annotateBeforeCreate": object{"example.org/created": "yes"}}),
					entry(w.secretWith("secret", "1"), object{"policy": "keep"}),
				)
			},
		},
		{
			name:   "recreate",
			reason: "the object is gone for a while, and must not be taken for one that somebody has deleted",
			before: func(w *world) object { return configOf(w.recreated("1", "first")) },
			job:    func(w *world) object { return configOf(w.recreated("2", "second")) },
		},
		{
			name:   "from update to apply",
			reason: "the fields are adopted in a write of their own",
			before: func(w *world) object { return config(w.ConfigMap("a", object{"goes": "1", "stays": "1"})) },
			job: func(w *world) object {
				return with(config(w.ConfigMap("a", object{"stays": "2"})), "updateStrategy", "apply")
			},
		},
		{
			name:   "orphans",
			reason: "what is changed before its deletion is changed once, and the groups keep their order",
			before: func(w *world) object {
				return configOf(
					entry(w.ConfigMap("stays", nil), nil),
					entry(w.ConfigMap("prepared", object{"a": "1"}), object{
						"annotateBeforeDelete": object{"example.org/deleted": "yes"},
						"patchBeforeDelete":    object{"data": object{"a": "2"}},
					}),
					entry(w.secretWith("first", "1"), nil),
					entry(w.secretWith("kept", "1"), object{"policy": "keep"}),
				)
			},
			job: func(w *world) object {
				return with(config(w.ConfigMap("stays", nil)), "deletionGroupsDuringUpdate", []object{
					{"customResourceGroup": object{"resources": []object{{"apiVersion": "v1", "kind": "secrets"}}}},
					{"predefinedResourceGroup": object{"type": "namespaced-resources"}},
				})
			},
		},
		{
			name:   "patch after deployment",
			reason: "the manifest and the patch do not undo each other",
			before: func(w *world) object { return configOf(w.patched("old", "1")) },
			job:    func(w *world) object { return configOf(w.patched("old", "2"), w.patched("new", "2")) },
		},
		{
			name:   "deletion in groups",
			reason: "finalizers go as well, in the order of the groups",
			before: deletedInGroups,
			job:    deletedInGroups,
			do:     plugintest.Delete,
		},
	}
}

func deletedInGroups(w *world) object {
	held := w.ConfigMap("held", nil)
	held["metadata"].(object)["finalizers"] = []any{"example.org/hold"}
	roses := object{"apiVersion": w.group() + "/v1", "kind": "roses", "namespaces": []any{w.Namespace}}
	return with(config(w.crd("Rose"), w.custom("Rose", "climbing"), held), "deletionGroups", []object{
		{"customResourceGroup": object{"deleteAllResources": true, "resources": []object{roses}}},
		{"predefinedResourceGroup": object{"type": "namespaced-resources", "forceDelete": true}},
		{"predefinedResourceGroup": object{"type": "crds"}},
	})
}

// recreated is an entry of an object that cannot be changed.
func (w *world) recreated(value, created string) object {
	o := w.secretWith("frozen", value)
	o["immutable"] = true
	return entry(o, object{"recreate": true, "annotateBeforeCreate": object{"example.org/created": created}})
}

// patched is an entry of an object that is changed once it is there.
func (w *world) patched(name, value string) object {
	return entry(w.ConfigMap(name, object{"both": "manifest " + value, "only": value}), object{
		"patchAfterDeployment": object{"data": object{"both": "patch " + value, "more": value}},
	})
}

func (w *world) secretWith(name, value string) object {
	return object{
		"apiVersion": "v1", "kind": "Secret",
		"metadata":   object{"name": name, "namespace": w.Namespace},
		"stringData": object{"key": value},
	}
}

func (w *world) roses() schema.GroupVersionResource {
	return schema.GroupVersionResource{Group: w.group(), Version: "v1", Resource: "roses"}
}

// labelled returns the objects that say that they belong to the item of the world. A resource that is not served has
// none.
func (w *world) labelled() []unstructured.Unstructured {
	w.Helper()
	var all []unstructured.Unstructured
	for _, resource := range []schema.GroupVersionResource{configMaps, secrets, w.roses(), roles, crds} {
		list, err := w.Objects(resource).List(w.Context(),
			metav1.ListOptions{LabelSelector: owner.Label + "=" + w.Namespace + ".item"})
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
	// Objects are those of the item, by kind and name, and Managed the entries of the provider status.
	Objects, Managed map[string]object
	// Drifted tells whether the job has blamed others for what it has found.
	Drifted bool
	// Created says how often objects were created, by the paths of their resources.
	Created map[string]int
}

// state returns that of the life, as it would be in any namespace and at any time.
func (l *life) state() state {
	l.Helper()
	s := state{Objects: map[string]object{}, Managed: map[string]object{}, Created: map[string]int{}}
	anywhere := func(text string) string { return strings.ReplaceAll(text, l.Namespace, "NAMESPACE") }
	for _, o := range l.labelled() {
		var managers []string
		for _, m := range o.GetManagedFields() {
			managers = append(managers, m.Manager+" "+string(m.Operation))
		}
		slices.Sort(managers) // the API server sorts them by their times
		s.Objects[anywhere(o.GetKind()+" "+o.GetName())] = object{
			"annotations": o.GetAnnotations(), "finalizers": o.GetFinalizers(), "data": o.Object["data"],
			"managers": managers,
		}
	}
	var status v1alpha2.ProviderStatus
	if saved := l.item.Status.ProviderStatus; saved != nil {
		mustParse(l, saved.Raw, &status)
	}
	s.Drifted = status.Drift != nil
	for _, m := range status.ManagedResources {
		s.Managed[anywhere(m.Resource.Kind+" "+m.Resource.Name)] = object{
			"policy": m.Policy, "uid": m.Resource.UID != "", "applied": m.Applied != "",
			"annotateBeforeDelete": m.AnnotateBeforeDelete, "patchBeforeDelete": m.PatchBeforeDelete,
		}
	}
	for key, times := range l.created {
		s.Created[anywhere(key)] = times
	}
	return s
}
