package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupName is the API group of all types in this package.
const GroupName = "landscaper.gardener.cloud"

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// DeployItemGVK is the group, version and kind of DeployItem, for metadata-only access.
var DeployItemGVK = GroupVersion.WithKind("DeployItem")

// AddToScheme registers the types of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&DeployItem{}, &DeployItemList{},
		&Target{}, &TargetList{},
		&Context{}, &ContextList{},
		&SyncObject{}, &SyncObjectList{},
		&DeployerRegistration{}, &DeployerRegistrationList{},
	)
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
