package prune

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// decide is next for an object of any kind. A CustomResourceDefinition to be deleted stays if the deploy item has not
// created it, or not all of its resources: they would all go with it, also those of other namespaces.
func (it item) decide(
	ctx context.Context, client *target.Client, live *unstructured.Unstructured, d Deletion, preparation map[string]any,
) (next action, why string, err error) {
	next, why = it.next(live, d, preparation)
	goes := next == actionPrepare || next == actionDelete
	switch {
	case !goes || it.ofAnyOwner || !object.IsCRD(it.key.Group, it.key.Kind):
		return next, why, nil
	case it.entry.Existed:
		return actionLeave, "it existed before this deploy item has applied it", nil
	}
	stranger, err := d.stranger(ctx, client, live)
	if err != nil {
		return next, "", fmt.Errorf("look for resources of other owners, which would be deleted with it: %w; "+
			"if none is needed, delete the CustomResourceDefinition by hand", err)
	}
	if stranger != "" {
		return actionLeave, fmt.Sprintf("%s, which this deploy item has not created, would be deleted with it", stranger), nil
	}
	return next, why, nil
}

// stranger names a resource of a CustomResourceDefinition that is not of the deploy item; empty if there is none.
// Resources under deletion do not count.
func (d Deletion) stranger(
	ctx context.Context, client *target.Client, definition *unstructured.Unstructured,
) (string, error) {
	mapping, kind, ok := servedBy(definition)
	if !ok { // then no client has been able to create any
		return "", nil
	}
	own := map[types.UID]bool{}
	for _, e := range d.Entries {
		own[e.Resource.UID] = true
	}
	options := metav1.ListOptions{Limit: pageSize}
	for {
		list, err := client.Metadata(mapping, "").List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.DeletionTimestamp == nil && !own[o.UID] && d.Owner.Of(o) != owner.Ours {
				key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name}
				return key.String(), nil
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return "", nil
		}
	}
}

// servedBy returns the mapping and the kind of the resources of a CustomResourceDefinition; not ok for a definition
// never established by the API server.
func servedBy(definition *unstructured.Unstructured) (mapping target.Mapping, kind schema.GroupKind, ok bool) {
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(definition.Object, fields...)
		return value
	}
	kind = schema.GroupKind{Group: text("spec", "group"), Kind: text("spec", "names", "kind")}
	mapping.Namespaced = text("spec", "scope") == "Namespaced"
	versions, _, _ := unstructured.NestedSlice(definition.Object, "spec", "versions")
	for _, v := range versions {
		version, _ := v.(map[string]any)
		if name, _ := version["name"].(string); version["served"] == true {
			gv := schema.GroupVersion{Group: kind.Group, Version: name}
			mapping.Resource = gv.WithResource(text("spec", "names", "plural"))
			_, ok = object.TrueCondition(definition, "Established")
			return mapping, kind, ok
		}
	}
	return mapping, kind, false
}
