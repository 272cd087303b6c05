package apply

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// addDefined adds the kinds of a CustomResourceDefinition; other objects define none. The API server reports the
// missing fields of an incomplete definition.
func addDefined(defined map[schema.GroupVersionKind]target.Mapping, o *unstructured.Unstructured) {
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

// established returns the condition missing for the use of a CustomResourceDefinition. The error is about names
// refused by the API server, a state that does not pass by itself. Both are empty for a usable definition, and for
// every other object.
func established(o *unstructured.Unstructured) (missing string, err error) {
	key := object.KeyOf(o)
	if !object.IsCRD(key.Group, key.Kind) {
		return "", nil
	}
	if _, ok := object.TrueCondition(o, "Established"); ok {
		return "", nil
	}
	if c, ok := object.ConditionOf(o, "NamesAccepted"); ok && c.Status == "False" {
		return "", &sdk.Error{
			Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry},
			Reason: ReasonNamesTaken,
			Err:    fmt.Errorf("the API server does not accept its names: %s", c.Message),
		}
	}
	return fmt.Sprintf("%s to be established", key), nil
}
