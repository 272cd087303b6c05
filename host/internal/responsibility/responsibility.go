// Package responsibility decides, from metadata alone where possible, which deployer an item belongs to. Deploy items can be
// large and most events concern items that are not ours, or that have nothing to do: looking at their metadata is cheap.
//
// TypeOf and TargetOf read the metadata. Selectors decide whether an item is ours by the Target that it has.
package responsibility

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TypeOf returns the deploy item type that the metadata of an item repeats, and whether it does.
func TypeOf(meta metav1.Object) (v1alpha1.DeployItemType, bool) {
	t, ok := meta.GetAnnotations()[v1alpha1.DeployerTypeAnnotation]
	return v1alpha1.DeployItemType(t), ok && t != ""
}

// TargetOf returns the name of the target that the metadata of an item repeats. Without a target hasTarget is false; known is
// false if the metadata does not tell, so that the item has to be read.
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

// Annotations are the annotations with which an item repeats in its metadata what a deployer must know of it. Landscaper sets
// them on the items that it creates.
func Annotations(item *v1alpha1.DeployItem) map[string]string {
	target, hasTarget := TargetOfItem(item)
	if !hasTarget {
		target = v1alpha1.NoTargetName
	}
	return map[string]string{
		v1alpha1.DeployerTypeAnnotation:       string(item.Spec.Type),
		v1alpha1.DeployerTargetNameAnnotation: target,
	}
}
