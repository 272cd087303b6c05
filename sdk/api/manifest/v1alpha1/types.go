// Package v1alpha1 holds the API types manifest.deployer.landscaper.gardener.cloud/v1alpha1, the older form of
// v1alpha2.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: v1alpha2.GroupName, Version: "v1alpha1"}

// ProviderConfiguration lists the objects of a deploy item, and sets up their deployment.
type ProviderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// UpdateStrategy is the way of bringing existing objects to their manifests. Defaults to update.
	UpdateStrategy managedresource.UpdateStrategy `json:"updateStrategy,omitempty"`
	// IgnoreDifferences are fields left to other clients once an object exists. Pergola's own.
	IgnoreDifferences []managedresource.IgnoreDifferences `json:"ignoreDifferences,omitempty"`
	// ReadinessChecks say when the objects count as ready.
	ReadinessChecks managedresource.ReadinessCheckConfiguration `json:"readinessChecks,omitempty"`
	// Manifests are the objects to deploy, all with the policy manage.
	Manifests []*runtime.RawExtension `json:"manifests,omitempty"`
	// Exports are values to read from the objects once they are ready.
	Exports *managedresource.Exports `json:"exports,omitempty"`
	// DeletionGroups are the steps of the item's deletion.
	DeletionGroups []managedresource.DeletionGroup `json:"deletionGroups,omitempty"`
	// DeletionGroupsDuringUpdate are the steps of deleting the objects no longer in Manifests.
	DeletionGroupsDuringUpdate []managedresource.DeletionGroup `json:"deletionGroupsDuringUpdate,omitempty"`
}

// ProviderStatus is the deployer's record of a deploy item.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`

	// ManagedResources are the objects created by the deployer.
	ManagedResources []managedresource.TypedObjectReference `json:"managedResources,omitempty"`
}
