// Package v1alpha2 holds the API types manifest.deployer.landscaper.gardener.cloud/v1alpha2: provider configuration and
// provider status of deploy items of type landscaper.gardener.cloud/kubernetes-manifest.
package v1alpha2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// GroupName is the API group of all types in this package.
	GroupName = "manifest.deployer.landscaper.gardener.cloud"
	// Type is the type of the deploy items of this package.
	Type v1alpha1.DeployItemType = "landscaper.gardener.cloud/kubernetes-manifest"
	// DeployItemLabel is Landscaper's label on each deployed object. Its value is the name of the deploy item; of a name
	// too long for a label the beginning, with a hash.
	DeployItemLabel = GroupName + "/deployitem"

	// ProviderConfigurationKind is the kind of ProviderConfiguration.
	ProviderConfigurationKind = "ProviderConfiguration"
	// ProviderStatusKind is the kind of ProviderStatus.
	ProviderStatusKind = "ProviderStatus"
)

// GroupVersion is the group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha2"}

// ProviderConfiguration lists the objects of a deploy item, and sets up their deployment.
type ProviderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// UpdateStrategy is the way of bringing existing objects to their manifests. Defaults to update.
	UpdateStrategy managedresource.UpdateStrategy `json:"updateStrategy,omitempty"`
	// IgnoreDifferences are fields left to other clients once an object exists. Pergola's own.
	IgnoreDifferences []managedresource.IgnoreDifferences `json:"ignoreDifferences,omitempty"`
	// ReadinessChecks say when the objects count as ready.
	ReadinessChecks managedresource.ReadinessCheckConfiguration `json:"readinessChecks,omitempty"`
	// Manifests are the objects to deploy.
	Manifests []managedresource.Manifest `json:"manifests,omitempty"`
	// Exports are values to read from the objects once they are ready.
	Exports *managedresource.Exports `json:"exports,omitempty"`
	// ContinuousReconcile says when the item is reconciled although nothing has changed.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
	// DeletionGroups are the steps of the item's deletion.
	DeletionGroups []managedresource.DeletionGroup `json:"deletionGroups,omitempty"`
	// DeletionGroupsDuringUpdate are the steps of deleting the objects no longer in Manifests.
	DeletionGroupsDuringUpdate []managedresource.DeletionGroup `json:"deletionGroupsDuringUpdate,omitempty"`
}

// ProviderStatus is the deployer's record of a deploy item.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`

	// ManagedResources are the objects of the deployer, from just before their creation until they are gone.
	ManagedResources []managedresource.ManagedResourceStatus `json:"managedResources,omitempty"`
	// Cluster is the cluster of the objects: the UID of its namespace kube-system. Empty as long as it is unknown, or if
	// nothing is managed. Pergola's own.
	Cluster types.UID `json:"cluster,omitempty"`
	// Installation is the control plane of the deploy item: the UID of its namespace kube-system. Empty as long as it is
	// unknown, or if nothing is managed. Pergola's own.
	Installation string `json:"installation,omitempty"`
	// Drift is the last drift found on the target and repaired by a job, until a job finds none. Pergola's own.
	Drift *managedresource.Drift `json:"drift,omitempty"`
	// SettledIn is the job in progress that has applied the entries with a SettledMark. Empty after the end of a job.
	// Pergola's own.
	SettledIn string `json:"settledIn,omitempty"`
}
