package objects

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// Called returns the Services that the API server calls because of an object.
func Called(o *unstructured.Unstructured) []object.Key {
	var references []map[string]any
	switch gvk := o.GroupVersionKind(); {
	case object.Intercepts(gvk.Group, gvk.Kind):
		for _, webhook := range Maps(o.Object["webhooks"]) {
			references = append(references, Child(webhook, "clientConfig", "service"))
		}
	case object.IsAPIService(gvk.Group, gvk.Kind):
		references = append(references, Child(o.Object, "spec", "service"))
	case object.IsCRD(gvk.Group, gvk.Kind):
		conversion := Child(o.Object, "spec", "conversion")
		if conversion["strategy"] == "Webhook" {
			references = append(references, Child(conversion, "webhook", "clientConfig", "service"))
		}
	}
	var services []object.Key
	for _, r := range references {
		namespace, _ := r["namespace"].(string)
		if name, _ := r["name"].(string); name != "" {
			services = append(services, object.Key{Kind: "Service", Namespace: namespace, Name: name})
		}
	}
	return services
}

// AddDefined adds the kinds of a CustomResourceDefinition; other objects define none. The API server reports the
// missing fields of an incomplete definition.
func AddDefined(defined map[schema.GroupVersionKind]target.Mapping, o *unstructured.Unstructured) {
	if gvk := o.GroupVersionKind(); !object.IsCRD(gvk.Group, gvk.Kind) {
		return
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, fields...)
		return value
	}
	group, kind, plural := text("spec", "group"), text("spec", "names", "kind"), text("spec", "names", "plural")
	if group == "" || kind == "" || plural == "" {
		return
	}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		gv := schema.GroupVersion{Group: group, Version: name}
		defined[gv.WithKind(kind)] = target.Mapping{
			Resource:   gv.WithResource(plural),
			Namespaced: text("spec", "scope") == "Namespaced",
		}
	}
}

// ServedBy returns a mapping for the resources of a definition.
func ServedBy(definition *unstructured.Unstructured) (target.Mapping, bool) {
	defined := map[schema.GroupVersionKind]target.Mapping{}
	AddDefined(defined, definition)
	for _, mapping := range defined {
		return mapping, true
	}
	return target.Mapping{}, false
}
