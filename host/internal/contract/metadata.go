package contract

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TargetOfItem returns the name of the target of an item, and whether it has one.
func TargetOfItem(item *v1alpha1.DeployItem) (name string, hasTarget bool) {
	if item.Spec.Target == nil || item.Spec.Target.Name == "" {
		return "", false
	}
	return item.Spec.Target.Name, true
}

// ReferencesOf returns the names of the Target and the Context of an item; target is empty for none.
func ReferencesOf(item *v1alpha1.DeployItem) (target, lsContext string) {
	target, _ = TargetOfItem(item)
	return target, cmp.Or(item.Spec.Context, v1alpha1.DefaultContextName)
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
