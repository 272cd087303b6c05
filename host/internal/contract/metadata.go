package contract

import (
	"cmp"
	"maps"
	"unique"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TypeOf returns the deploy item type repeated by the metadata of an item, and whether there is one.
func TypeOf(meta metav1.Object) (v1alpha1.DeployItemType, bool) {
	t, ok := meta.GetAnnotations()[v1alpha1.DeployerTypeAnnotation]
	return v1alpha1.DeployItemType(t), ok && t != ""
}

// TargetOf returns the name of the target repeated by the metadata of an item. hasTarget is false for an item without a
// target; known is false if the metadata does not say, so that the item has to be read.
func TargetOf(meta metav1.Object) (name string, hasTarget, known bool) {
	name = meta.GetAnnotations()[v1alpha1.DeployerTargetNameAnnotation]
	switch name {
	case "":
		return "", false, false
	case v1alpha1.NoTargetName:
		return "", false, true
	default:
		return name, true, true
	}
}

// TargetOfItem returns the name of the target of an item, and whether it has one.
func TargetOfItem(item *v1alpha1.DeployItem) (name string, hasTarget bool) {
	if item.Spec.Target == nil || item.Spec.Target.Name == "" {
		return "", false
	}
	return item.Spec.Target.Name, true
}

// The annotations of metadata in a cache for references not repeated by the item's own annotations. No object of the
// API server has them.
const (
	targetReference  = "host.pergola.dev/target"
	contextReference = "host.pergola.dev/context"
)

// NoteReferences notes the references of an item in metadata of a cache, for ReferencesOf. It adds nothing for an item
// whose annotations repeat its Target and whose Context is the default one.
func NoteReferences(meta metav1.Object, item *v1alpha1.DeployItem) {
	notes := map[string]string{}
	name, hasTarget := TargetOfItem(item)
	if said, says, known := TargetOf(meta); !known || says != hasTarget || said != name {
		notes[targetReference] = cmp.Or(name, v1alpha1.NoTargetName)
	}
	if item.Spec.Context != "" && item.Spec.Context != v1alpha1.DefaultContextName {
		notes[contextReference] = item.Spec.Context
	}
	if len(notes) == 0 {
		return
	}
	annotations := maps.Clone(meta.GetAnnotations())
	if annotations == nil {
		annotations = map[string]string{}
	}
	for key, value := range notes {
		annotations[key] = unique.Make(value).Value()
	}
	meta.SetAnnotations(annotations)
}

// ReferencesOf returns the names of the Target and the Context of an item, from metadata after NoteReferences; target
// is empty for none.
func ReferencesOf(meta metav1.Object) (target, lsContext string) {
	annotations := meta.GetAnnotations()
	target = cmp.Or(annotations[targetReference], annotations[v1alpha1.DeployerTargetNameAnnotation])
	if target == v1alpha1.NoTargetName {
		target = ""
	}
	return target, cmp.Or(annotations[contextReference], v1alpha1.DefaultContextName)
}

// CameTooLate reports whether an item, created at a time, may not use an object: the object is being deleted since
// before that time and stays for older items only.
func CameTooLate(created metav1.Time, object metav1.Object) bool {
	deleted := object.GetDeletionTimestamp()
	return deleted != nil && created.After(deleted.Time)
}

// DeployerAnnotations are the annotations that repeat the type and the Target of an item in its metadata. Landscaper
// sets them on the items of its installations.
func DeployerAnnotations(item *v1alpha1.DeployItem) map[string]string {
	target, hasTarget := TargetOfItem(item)
	if !hasTarget {
		target = v1alpha1.NoTargetName
	}
	return map[string]string{
		v1alpha1.DeployerTypeAnnotation:       string(item.Spec.Type),
		v1alpha1.DeployerTargetNameAnnotation: target,
	}
}
