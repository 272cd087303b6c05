package main

import (
	"fmt"
	"strings"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// manyObjects is how many objects there are, and definitions how many of them define kinds.
const manyObjects, definitions = 500, 5

type fields = map[string]any

// manyConfig returns a provider configuration of the manifest deployer with all objects. Those that are in no
// namespace have names that begin with that of the namespace, and so has the API group of the kinds that are defined,
// so that one cluster can have several.
func manyConfig(namespace string, strategy managedresource.UpdateStrategy) fields {
	entries := []any{}
	for _, o := range objects(namespace) {
		entries = append(entries, fields{"policy": managedresource.PolicyManage, "manifest": o})
	}
	return fields{
		"apiVersion": v1alpha2.GroupVersion.String(), "kind": v1alpha2.ProviderConfigurationKind,
		"updateStrategy": strategy, "manifests": entries,
	}
}

// objects returns what is defined after what needs it: the deployer has to find the order.
func objects(namespace string) []fields {
	group := namespace + ".example.org"
	var all []fields
	add := func(n int, apiVersion, kind string, more func(name string) fields) {
		for i := range n {
			name := fmt.Sprintf("%s-%03d", strings.ToLower(kind), i)
			o := fields{"apiVersion": apiVersion, "kind": kind, "metadata": fields{"name": name, "namespace": namespace}}
			for field, value := range more(name) {
				o[field] = value
			}
			all = append(all, o)
		}
	}
	named := func(name string, more fields) fields { // in no namespace
		more["metadata"] = fields{"name": namespace + "-" + name}
		return more
	}
	rules := []any{fields{"apiGroups": []any{""}, "resources": []any{"configmaps"}, "verbs": []any{"get"}}}
	for i := range definitions {
		add(20, group+"/v1", kindName(i), func(string) fields { return fields{"spec": fields{"size": 3}} })
	}
	add(150, "v1", "ConfigMap", func(name string) fields {
		return fields{"data": fields{"name": name, "text": strings.Repeat("x", 200)}}
	})
	add(80, "v1", "Secret", func(name string) fields { return fields{"stringData": fields{"name": name}} })
	add(50, "v1", "ServiceAccount", func(string) fields { return nil })
	add(30, "v1", "Service", func(name string) fields {
		return fields{"spec": fields{"selector": fields{"app": name}, "ports": []any{fields{"port": 80}}}}
	})
	add(30, "rbac.authorization.k8s.io/v1", "Role", func(string) fields { return fields{"rules": rules} })
	add(30, "rbac.authorization.k8s.io/v1", "RoleBinding", func(string) fields {
		return fields{
			"roleRef":  fields{"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": "role-000"},
			"subjects": []any{fields{"kind": "ServiceAccount", "name": "serviceaccount-000", "namespace": namespace}},
		}
	})
	add(15, "rbac.authorization.k8s.io/v1", "ClusterRole", func(name string) fields {
		return named(name, fields{"rules": rules})
	})
	add(10, "scheduling.k8s.io/v1", "PriorityClass", func(name string) fields { return named(name, fields{"value": 7}) })
	for i := range definitions {
		all = append(all, definition(group, kindName(i)))
	}
	return all
}

func kindName(i int) string { return fmt.Sprintf("Thing%c", 'a'+i) }

func definition(group, kind string) fields {
	singular := strings.ToLower(kind)
	return fields{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": fields{"name": singular + "s." + group},
		"spec": fields{
			"group": group, "scope": "Namespaced",
			"names": fields{"kind": kind, "listKind": kind + "List", "plural": singular + "s", "singular": singular},
			"versions": []any{fields{
				"name": "v1", "served": true, "storage": true,
				"schema": fields{"openAPIV3Schema": fields{"type": "object", "properties": fields{
					"spec": fields{"type": "object", "properties": fields{"size": fields{"type": "integer"}}},
				}}},
			}},
		},
	}
}
