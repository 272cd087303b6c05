package deployer_test

import (
	"github.com/pergola-deploy/pergola/plugins/internal/plugintest"
)

// scenario is a job that something happens to in the middle.
type scenario struct {
	name, reason string
	// before is the configuration of a job that was done before; nil for none.
	before func(w *world) object
	// foreign is made by somebody else after that; nil for nothing.
	foreign func(w *world)
	// job is the configuration of the job; for a deletion, that of the item.
	job func(w *world) object
	// do defaults to a reconcile.
	do plugintest.Operation
}

func (s scenario) operation() plugintest.Operation {
	if s.do == nil {
		return plugintest.Reconcile
	}
	return s.do
}

func scenarios() []scenario {
	all := []scenario{
		{
			name:   "create mixed kinds",
			reason: "objects are created in stages, and the kind of one comes with the item",
			job: func(w *world) object {
				return configOf(
					entry(w.crd("Rose"), nil),
					entry(w.custom("Rose", "climbing"), nil),
					entry(w.clusterRole(), nil),
					entry(w.configMap("annotated", object{"a": "1"}), object{"annotateBeforeCreate": object{"example.org/created": "yes"}}),
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
			name:   "recreate with apply",
			reason: "server-side apply creates what is missing by the same request as it changes what is there",
			before: func(w *world) object { return with(configOf(w.recreated("1", "first")), "updateStrategy", "apply") },
			job:    func(w *world) object { return with(configOf(w.recreated("2", "second")), "updateStrategy", "apply") },
		},
		{
			name:   "from update to apply",
			reason: "the fields are adopted in a write of their own",
			before: func(w *world) object { return config(w.configMap("a", object{"goes": "1", "stays": "1"})) },
			job: func(w *world) object {
				return with(config(w.configMap("a", object{"stays": "2"})), "updateStrategy", "apply")
			},
		},
		{
			name:   "orphans",
			reason: "what is changed before its deletion is changed once, and the groups keep their order",
			before: func(w *world) object {
				return configOf(
					entry(w.configMap("stays", nil), nil),
					entry(w.configMap("prepared", object{"a": "1"}), object{
						"annotateBeforeDelete": object{"example.org/deleted": "yes"},
						"patchBeforeDelete":    object{"data": object{"a": "2"}},
					}),
					entry(w.secretWith("first", "1"), nil),
					entry(w.secretWith("kept", "1"), object{"policy": "keep"}),
				)
			},
			job: func(w *world) object {
				return with(config(w.configMap("stays", nil)), "deletionGroupsDuringUpdate", []any{
					object{"customResourceGroup": object{"resources": []any{object{"apiVersion": "v1", "kind": "secrets"}}}},
					object{"predefinedResourceGroup": object{"type": "namespaced-resources"}},
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
			name:   "policies",
			reason: "each has its own idea of what may be done with an object that is there",
			before: func(w *world) object {
				return configOf(
					entry(w.configMap("ours", object{"a": "1"}), object{"policy": "fallback"}),
					entry(w.configMap("kept", object{"a": "1"}), object{"policy": "keep"}),
					entry(w.configMap("fixed", object{"a": "1"}), object{"policy": "immutable"}),
				)
			},
			foreign: func(w *world) {
				w.Create(configMaps, w.configMap("theirs", object{"a": "theirs"}))
				w.Create(configMaps, w.configMap("taken", object{"a": "theirs"}))
			},
			job: func(w *world) object {
				return configOf(
					entry(w.configMap("ours", object{"a": "2"}), object{"policy": "fallback"}),
					entry(w.configMap("theirs", object{"a": "2"}), object{"policy": "fallback"}),
					entry(w.configMap("taken", object{"a": "2"}), nil),
					entry(w.configMap("fixed", object{"a": "2"}), object{"policy": "immutable"}),
					entry(w.configMap("ignored", object{"a": "2"}), object{"policy": "ignore"}),
				)
			},
		},
		{
			name:    "deletion in groups",
			reason:  "objects of others and finalizers go as well, in the order of the groups",
			before:  deletedInGroups,
			foreign: func(w *world) { w.Create(w.roses(), w.custom("Rose", "wild")) },
			job:     deletedInGroups,
			do:      plugintest.Delete,
		},
		{
			name:   "deletion in the default order",
			reason: "many objects of a kind are looked at in a list, those that are prepared one by one",
			before: func(w *world) object {
				return configOf(
					entry(w.configMap("a", nil), nil), entry(w.configMap("b", nil), nil),
					entry(w.configMap("c", nil), nil), entry(w.configMap("d", nil), nil),
					entry(w.configMap("prepared", nil), object{"annotateBeforeDelete": object{"example.org/deleted": "yes"}}),
					entry(w.secretWith("kept", "1"), object{"policy": "keep"}),
					entry(w.clusterRole(), nil),
				)
			},
			job: func(*world) object { return config() },
			do:  plugintest.Delete,
		},
	}
	for _, strategy := range []string{"update", "patch", "merge", "mergeOverwrite", "apply"} {
		all = append(all, scenario{
			name:   "strategy " + strategy,
			reason: "an object is changed, one is created and one stays as it is",
			before: func(w *world) object {
				return with(config(w.serviceAt(80), w.configMap("same", object{"a": "1"})), "updateStrategy", strategy)
			},
			job: func(w *world) object {
				return with(config(w.serviceAt(81), w.configMap("same", object{"a": "1"}), w.configMap("added", nil)), "updateStrategy", strategy)
			},
		})
	}
	return all
}

func deletedInGroups(w *world) object {
	held := w.configMap("held", nil)
	held["metadata"].(object)["finalizers"] = []any{"example.org/hold"}
	return with(configOf(
		entry(w.crd("Rose"), nil),
		entry(w.custom("Rose", "climbing"), nil),
		entry(held, nil),
	), "deletionGroups", []any{
		object{"customResourceGroup": object{
			"resources":          []any{object{"apiVersion": w.group() + "/v1", "kind": "roses", "namespaces": []any{w.Namespace}}},
			"deleteAllResources": true,
		}},
		object{"predefinedResourceGroup": object{"type": "namespaced-resources", "forceDelete": true}},
		object{"predefinedResourceGroup": object{"type": "crds"}},
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
	return entry(w.configMap(name, object{"both": "manifest " + value, "only": value}), object{
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

func (w *world) serviceAt(port int64) object {
	return object{
		"apiVersion": "v1", "kind": "Service",
		"metadata": object{"name": "service", "namespace": w.Namespace},
		"spec":     object{"selector": object{"app": "none"}, "ports": []any{object{"name": "http", "port": port}}},
	}
}
