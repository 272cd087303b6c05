package desired

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Losses names everything lost with the deletion of an object that no creation brings back; empty for nothing.
func Losses(live *unstructured.Unstructured) string {
	text := func(path ...string) string { return object.Text(live.Object, path...) }
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
