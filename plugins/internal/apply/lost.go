package apply

import (
	"context"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// losses names everything lost with the deletion of an object that no creation brings back; empty for nothing.
func losses(live *unstructured.Unstructured) string {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(live.Object, path...)
		return value
	}
	switch kind := live.GroupVersionKind().GroupKind(); {
	case object.IsCRD(kind.Group, kind.Kind):
		return fmt.Sprintf("all resources of the kind %s, also those of others", text("spec", "names", "kind"))
	case kind == schema.GroupKind{Kind: "Namespace"}:
		return "all objects in it, also those of others"
	case kind == schema.GroupKind{Kind: "PersistentVolumeClaim"}:
		return "its volume and the data in it, unless the volume's reclaim policy is Retain"
	case kind == schema.GroupKind{Kind: "PersistentVolume"}:
		if text("spec", "persistentVolumeReclaimPolicy") != "Retain" {
			return "the data in it"
		}
	case kind == schema.GroupKind{Group: "apps", Kind: "StatefulSet"}:
		if text("spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted") == "Delete" {
			return "its claims and the data in their volumes"
		}
	}
	return ""
}

// countLost adds the number of a definition's resources to losses, if the API server returns it.
func (r runner) countLost(ctx context.Context, live *unstructured.Unstructured, lost string) string {
	mapping, ok := servedBy(live)
	if !ok {
		return lost
	}
	list, err := r.client.Metadata(mapping, "").List(ctx, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return lost // the count is only for the message
	}
	count := int64(len(list.Items))
	if more := list.GetRemainingItemCount(); more != nil {
		count += *more
	}
	return fmt.Sprintf("%s (%d now)", lost, count)
}

// servedBy returns a mapping for the resources of a definition.
func servedBy(definition *unstructured.Unstructured) (target.Mapping, bool) {
	defined := map[schema.GroupVersionKind]target.Mapping{}
	addDefined(defined, definition)
	for _, mapping := range defined {
		return mapping, true
	}
	return target.Mapping{}, false
}
