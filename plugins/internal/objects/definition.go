package objects

import (
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// Kind is a kind in one of its versions.
type Kind struct {
	schema.GroupVersionKind
	Mapping target.Mapping
}

// Defined returns the kinds served because of a CustomResourceDefinition, one for each version; none for an incomplete
// definition, and for any other object.
func Defined(o *unstructured.Unstructured) []Kind {
	if gvk := o.GroupVersionKind(); !object.IsCRD(gvk.Group, gvk.Kind) {
		return nil
	}
	spec := object.Child(o.Object, "spec")
	names := object.Child(spec, "names")
	group, _ := spec["group"].(string)
	kind, _ := names["kind"].(string)
	plural, _ := names["plural"].(string)
	if group == "" || kind == "" || plural == "" {
		return nil
	}
	var kinds []Kind
	for _, version := range object.Maps(spec, "versions") {
		if version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		gv := schema.GroupVersion{Group: group, Version: name}
		mapping := target.Mapping{Resource: gv.WithResource(plural), Namespaced: spec["scope"] == "Namespaced"}
		kinds = append(kinds, Kind{gv.WithKind(kind), mapping})
	}
	return kinds
}

// DefinedKind returns the kind of a CustomResourceDefinition in any version.
func DefinedKind(definition *unstructured.Unstructured) schema.GroupKind {
	return schema.GroupKind{
		Group: object.Text(definition.Object, "spec", "group"), Kind: object.Text(definition.Object, "spec", "names", "kind"),
	}
}
