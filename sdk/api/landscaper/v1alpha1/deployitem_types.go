package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeployItem describes one thing to deploy, and its progress.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=deployitems,shortName=di
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Target",type=string,JSONPath=`.spec.target.name`
// +kubebuilder:printcolumn:name="Phase",type=string,JSONPath=`.status.phase`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`
// +kubebuilder:printcolumn:name="Message",type=string,priority=1,JSONPath=`.status.conditions[?(@.type=="Ready")].message`
// +kubebuilder:printcolumn:name="ExportRef",type=string,JSONPath=`.status.exportRef.name`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeployItem struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is written by Landscaper or a user.
	Spec DeployItemSpec `json:"spec"`
	// Status is written by Landscaper, to set jobs, and by the deployer, to carry them out.
	// +kubebuilder:default={"observedGeneration":-1}
	// +optional
	Status DeployItemStatus `json:"status,omitempty"`
}

// DeployItemList is a list of DeployItems.
//
// +kubebuilder:object:root=true
type DeployItemList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeployItem `json:"items"`
}

// DeployItemType decides about the responsible deployer, such as "landscaper.gardener.cloud/helm".
type DeployItemType string

// DeployItemSpec is the desired deployment.
type DeployItemSpec struct {
	// Type decides about the responsible deployer. It does not change during the life of an item.
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="the type of a deploy item does not change; delete the item and create another"
	Type DeployItemType `json:"type"`
	// Target names the Target to deploy to. It is read from the namespace of the item, whatever Namespace says.
	// +optional
	Target *ObjectReference `json:"target,omitempty"`
	// Context names the Context of the item, in the item's namespace.
	// +kubebuilder:default=default
	// +optional
	Context string `json:"context,omitempty"`
	// Config is the provider configuration. Only the deployer of the item's type reads it.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Config *runtime.RawExtension `json:"config,omitempty"`
	// Timeout is how long a job may take from its pick-up on, or "none". Defaults to ten minutes.
	// +optional
	Timeout Duration `json:"timeout,omitempty"`
	// UpdateOnChangeOnly ends a new job at once if the last one succeeded and the spec has not changed since.
	// +optional
	UpdateOnChangeOnly bool `json:"updateOnChangeOnly,omitempty"`
	// OnDelete modifies a deletion.
	// +optional
	OnDelete *OnDeleteConfig `json:"onDelete,omitempty"`
}

// OnDeleteConfig modifies a deletion.
type OnDeleteConfig struct {
	// SkipUninstallIfClusterRemoved is evaluated by Landscaper, not by a deployer.
	// +optional
	SkipUninstallIfClusterRemoved bool `json:"skipUninstallIfClusterRemoved,omitempty"`
}

// DeployItemPhase is the progress of a job.
type DeployItemPhase string

// The phases of a DeployItem.
const (
	// DeployItemPhaseInit: a deployer has picked up the job.
	DeployItemPhaseInit DeployItemPhase = "Init"
	// DeployItemPhaseProgressing: the deployer is working or waiting.
	DeployItemPhaseProgressing DeployItemPhase = "Progressing"
	// DeployItemPhaseCompleting: the deployer is tidying up.
	DeployItemPhaseCompleting DeployItemPhase = "Completing"
	// DeployItemPhaseSucceeded: the job is done. Final.
	DeployItemPhaseSucceeded DeployItemPhase = "Succeeded"
	// DeployItemPhaseFailed: the job was given up. Final.
	DeployItemPhaseFailed DeployItemPhase = "Failed"
	// DeployItemPhaseInitDelete: a deployer has picked up a job that deletes.
	DeployItemPhaseInitDelete DeployItemPhase = "InitDelete"
	// DeployItemPhaseDeleting: the deployer is deleting, or waiting for it.
	DeployItemPhaseDeleting DeployItemPhase = "Deleting"
	// DeployItemPhaseDeleteFailed: a job that deletes was given up. Final.
	DeployItemPhaseDeleteFailed DeployItemPhase = "DeleteFailed"
)

// IsFinal reports whether the phase ends a job. The empty phase is not final: no job has been yet.
func (p DeployItemPhase) IsFinal() bool {
	return p == DeployItemPhaseSucceeded || p == DeployItemPhaseFailed || p == DeployItemPhaseDeleteFailed
}

// IsDeletion reports whether the phase belongs to a job that deletes.
func (p DeployItemPhase) IsDeletion() bool {
	return p == DeployItemPhaseInitDelete || p == DeployItemPhaseDeleting || p == DeployItemPhaseDeleteFailed
}

// DeployItemStatus is the progress of a DeployItem.
type DeployItemStatus struct {
	// Phase of the current job, or of the last one.
	// +optional
	Phase DeployItemPhase `json:"phase,omitempty"`
	// ObservedGeneration is the generation whose job is under way or done; -1 before the first job.
	ObservedGeneration int64 `json:"observedGeneration"`
	// Conditions describe aspects of the item's state.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// LastError is the last error of the current job.
	// +optional
	LastError *Error `json:"lastError,omitempty"`
	// LastErrors are the last five errors of the current job.
	// +optional
	LastErrors []*Error `json:"lastErrors,omitempty"`
	// FirstError is the first error of the current job.
	// +optional
	FirstError *Error `json:"firstError,omitempty"`
	// LastReconcileTime is when the last job was picked up.
	// +optional
	LastReconcileTime *Time `json:"lastReconcileTime,omitempty"`
	// Deployer is the deployer with the last pick-up of a job.
	// +optional
	Deployer DeployerInformation `json:"deployer,omitempty"`
	// ProviderStatus is the deployer's record of the item. Only the deployer reads it.
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ProviderStatus *runtime.RawExtension `json:"providerStatus,omitempty"`
	// ExportReference names the secret with the item's exports.
	// +optional
	ExportReference *ObjectReference `json:"exportRef,omitempty"`
	// JobID is the job set last, by Landscaper.
	// +optional
	JobID string `json:"jobID,omitempty"`
	// JobIDFinished is the job finished last. A job is to be done while it differs from JobID.
	// +optional
	JobIDFinished string `json:"jobIDFinished,omitempty"`
	// JobIDGenerationTime is when JobID was set.
	// +optional
	JobIDGenerationTime *Time `json:"jobIDGenerationTime,omitempty"`
	// DeployItemPhase is deprecated and emptied by Landscaper.
	// +optional
	DeployItemPhase *DeployItemPhase `json:"deployItemPhase,omitempty"`
	// TransitionTimes are the times of the current job, or of the last one.
	// +optional
	TransitionTimes *TransitionTimes `json:"transitionTimes,omitempty"`
}

// TransitionTimes are the times of one job.
type TransitionTimes struct {
	// TriggerTime is when the job was set.
	// +optional
	TriggerTime *Time `json:"triggerTime,omitempty"`
	// InitTime is when it was picked up. The timeout counts from here.
	// +optional
	InitTime *Time `json:"initTime,omitempty"`
	// WaitTime is never set for a DeployItem.
	// +optional
	WaitTime *Time `json:"waitTime,omitempty"`
	// FinishedTime is when it reached a final phase.
	// +optional
	FinishedTime *Time `json:"finishedTime,omitempty"`
}

// DeployerInformation names a deployer.
type DeployerInformation struct {
	// Identity of the installation.
	Identity string `json:"identity"`
	// Name of the deployer.
	Name string `json:"name"`
	// Version of the deployer.
	Version string `json:"version"`
}
