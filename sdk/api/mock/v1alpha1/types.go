// Package v1alpha1 holds the provider configuration of the mock deployer,
// mock.deployer.landscaper.gardener.cloud/v1alpha1.
package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// GroupVersion is the apiVersion of the types in this package.
	GroupVersion = "mock.deployer.landscaper.gardener.cloud/v1alpha1"
	// Kind is the kind of ProviderConfiguration.
	Kind = "ProviderConfiguration"
	// Type is the deploy item type of the mock deployer.
	Type v1alpha1.DeployItemType = "landscaper.gardener.cloud/mock"
)

// ProviderConfiguration says what the mock deployer is to pretend. Without any field a job succeeds at once.
type ProviderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Phase is how each job ends: Succeeded, Failed, or not at all with any other phase.
	Phase *v1alpha1.DeployItemPhase `json:"phase,omitempty"`
	// InitialPhase is what a job without Phase comes to, in the same words. Phase wins.
	InitialPhase *v1alpha1.DeployItemPhase `json:"initialPhase,omitempty"`
	// ProviderStatus becomes the provider status of the item; it needs apiVersion and kind.
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// Export is a JSON object with the values to export.
	Export *runtime.RawExtension `json:"export,omitempty"`
	// ContinuousReconcile says when the item is reconciled although nothing has changed. Unlike with other deployers,
	// both fields may be set, and Cron wins; and a schedule that cannot be read fails no job: there is a warning, and no
	// schedule.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`
}
