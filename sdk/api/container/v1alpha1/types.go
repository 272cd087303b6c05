// Package v1alpha1 has the types of the container deployer: provider configuration and provider status of deploy items
// of its type. Names and meanings are those of Landscaper's API group
// container.deployer.landscaper.gardener.cloud/v1alpha1; Pergola's own fields say so.
package v1alpha1

import (
	"encoding/json"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// GroupName is the API group of all types in this package.
	GroupName = "container.deployer.landscaper.gardener.cloud"
	// Type is the type of the deploy items of this package.
	Type v1alpha1.DeployItemType = "landscaper.gardener.cloud/container"

	// ProviderConfigurationKind is the kind of ProviderConfiguration.
	ProviderConfigurationKind = "ProviderConfiguration"
	// ProviderStatusKind is the kind of ProviderStatus.
	ProviderStatusKind = "ProviderStatus"
)

// GroupVersion is the API group and version of all types in this package.
var GroupVersion = schema.GroupVersion{Group: GroupName, Version: "v1alpha1"}

// ProviderConfiguration is spec.config of a deploy item of the container deployer.
type ProviderConfiguration struct {
	metav1.TypeMeta `json:",inline"`

	// Image of the container. Defaults to the operator's default image, if any.
	Image string `json:"image,omitempty"`
	// Command takes the place of the image's entrypoint.
	Command []string `json:"command,omitempty"`
	// Args take the place of the image's arguments.
	Args []string `json:"args,omitempty"`
	// ImportValues is the content of the file at IMPORTS_PATH in the container: any JSON.
	ImportValues json.RawMessage `json:"importValues,omitempty"`
	// Blueprint is the content of the directory at CONTENT_PATH in the container.
	Blueprint *Blueprint `json:"blueprint,omitempty"`
	// ComponentDescriptor is the content of the file at COMPONENT_DESCRIPTOR_PATH in the container.
	ComponentDescriptor *ComponentDescriptor `json:"componentDescriptor,omitempty"`
	// RegistryPullSecrets are Secrets with Docker's configuration, for the image.
	RegistryPullSecrets []SecretReference `json:"registryPullSecrets,omitempty"`
	// ContinuousReconcile says when the container is run although nothing has changed.
	ContinuousReconcile *managedresource.ContinuousReconcile `json:"continuousReconcile,omitempty"`

	// Resources of the container. Pergola's own.
	Resources *corev1.ResourceRequirements `json:"resources,omitempty"`
	// NodeSelector has the labels of nodes for the Pod. Pergola's own.
	NodeSelector map[string]string `json:"nodeSelector,omitempty"`
	// Tolerations of the Pod. Pergola's own.
	Tolerations []corev1.Toleration `json:"tolerations,omitempty"`
	// ServiceAccountName is a ServiceAccount of the Pod's namespace; the container gets its token. It needs the operator's
	// permission. Defaults to none. Pergola's own.
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
	// RunOnTarget runs the Pod on the cluster of the deploy item's Target and not on that of the host. Pergola's own.
	RunOnTarget *RunOnTarget `json:"runOnTarget,omitempty"`
}

// RunOnTarget says how the Pod is run on the cluster of the Target.
type RunOnTarget struct {
	// Namespace of the Pod and of all its objects. It must be there. Required.
	Namespace string `json:"namespace"`
}

// Blueprint is a file system. Exactly one of its fields is set.
type Blueprint struct {
	// Reference is a resource of the component descriptor.
	Reference *BlueprintReference `json:"ref,omitempty"`
	// Inline is the file system itself.
	Inline *InlineBlueprint `json:"inline,omitempty"`
}

// BlueprintReference names a resource of a component.
type BlueprintReference struct {
	// ResourceName is the name of the resource.
	ResourceName string `json:"resourceName"`
}

// InlineBlueprint is a file system in the document.
type InlineBlueprint struct {
	// Filesystem has files and directories by name: a directory is an object, a file a text. Anything else is the
	// content of a YAML file.
	Filesystem json.RawMessage `json:"filesystem"`
}

// ComponentDescriptor is that of the deploy item's component. Exactly one of its fields is set.
type ComponentDescriptor struct {
	// Reference is where it can be found.
	Reference *ComponentDescriptorReference `json:"ref,omitempty"`
	// Inline is the component descriptor itself.
	Inline json.RawMessage `json:"inline,omitempty"`
}

// ComponentDescriptorReference names a version of a component.
type ComponentDescriptorReference struct {
	// RepositoryContext is its repository. Defaults to that of the Context.
	RepositoryContext json.RawMessage `json:"repositoryContext,omitempty"`
	// ComponentName is the name of the component.
	ComponentName string `json:"componentName"`
	// Version of the component.
	Version string `json:"version"`
}

// SecretReference names a Secret.
type SecretReference struct {
	// Name of the Secret.
	Name string `json:"name"`
	// Namespace of the Secret.
	Namespace string `json:"namespace"`
}

// Operation is the purpose of a run. It is the value of the variable OPERATION in its environment.
type Operation string

// The operations.
const (
	// OperationReconcile: the deploy item is new, has changed, or is looked at again.
	OperationReconcile Operation = "RECONCILE"
	// OperationDelete: the deploy item is being deleted.
	OperationDelete Operation = "DELETE"
)

// ProviderStatus is status.providerStatus of a deploy item of the container deployer.
type ProviderStatus struct {
	metav1.TypeMeta `json:",inline"`

	// LastOperation is the purpose of the last Pod.
	LastOperation Operation `json:"lastOperation,omitempty"`
	// PodStatus is the state of the last Pod; nil if there was none.
	PodStatus *PodStatus `json:"podStatus,omitempty"`

	// Run is the last run, be it over or not; nil if there was none. Pergola's own.
	Run *Run `json:"run,omitempty"`
	// State is the state from the last run for the next one; nil if there is none. Pergola's own.
	State *State `json:"state,omitempty"`
	// StateLost is the last run with a lost state; nil as soon as a later run has reported its own. Pergola's own.
	StateLost *StateLoss `json:"stateLost,omitempty"`
}

// StateLoss is a run with a lost state: it could not be kept.
type StateLoss struct {
	// Run is the name of the run, and Why the cause of the loss.
	Run string `json:"run"`
	Why string `json:"why"`
}

// Place is where the objects of a run are.
type Place struct {
	// Namespace of the objects.
	Namespace string `json:"namespace"`
	// OnTarget: they are on the cluster of the Target and not on the host's.
	OnTarget bool `json:"onTarget,omitempty"`
	// Cluster is the cluster of the Target: the UID of the namespace there. Empty if OnTarget is not set.
	Cluster types.UID `json:"cluster,omitempty"`
}

// Run is one Pod with all its objects. It is noted before anything of it is created, and its outcome before anything of
// it is removed.
type Run struct {
	Place `json:",inline"`

	// Name of the Pod, and the beginning of the names of its objects.
	Name string `json:"name"`
	// JobID is the job of the run, and Operation its purpose.
	JobID     string    `json:"jobID"`
	Operation Operation `json:"operation"`
	// PodUID is the UID of its Pod; empty as long as no Pod was seen.
	PodUID types.UID `json:"podUID,omitempty"`
	// Restored is the state at its beginning; nil if there was none.
	Restored *State `json:"restored,omitempty"`
	// HinderedSince is since when a container cannot be started; nil as long as all can.
	HinderedSince *metav1.Time `json:"hinderedSince,omitempty"`
	// TimedOut: it was stopped because the time of its job was over.
	TimedOut bool `json:"timedOut,omitempty"`
	// UploadAsked is since when its wait container is to upload although others than main go on; nil if it is not.
	UploadAsked *metav1.Time `json:"uploadAsked,omitempty"`
	// RenewAccess is when the wait container gets another token for its uploads.
	RenewAccess *metav1.Time `json:"renewAccess,omitempty"`
	// Outcome says how it has ended; empty as long as it has not.
	Outcome Outcome `json:"outcome,omitempty"`
	// Reason, Message and Codes are the error of a run without success. Without an Outcome they are the reason for
	// stopping its Pod.
	Reason  string               `json:"reason,omitempty"`
	Message string               `json:"message,omitempty"`
	Codes   []v1alpha1.ErrorCode `json:"codes,omitempty"`
	// Cleared: all its objects are removed, but for its exports and state.
	Cleared bool `json:"cleared,omitempty"`
}

// Outcome is how a run has ended.
type Outcome string

// The outcomes.
const (
	OutcomeSucceeded Outcome = "Succeeded"
	OutcomeFailed    Outcome = "Failed"
	// OutcomeAborted: the job was ended from outside, or there is a new one.
	OutcomeAborted Outcome = "Aborted"
)

// State is an archive in Secrets.
type State struct {
	Place `json:",inline"`

	// ID is the common annotation of the Secrets.
	ID string `json:"id"`
	// Chunks is how many Secrets there are.
	Chunks int `json:"chunks"`
	// Secrets are their names, in the order of the chunks, for a state from Landscaper. Otherwise the names follow from
	// ID.
	Secrets []string `json:"secrets,omitempty"`
}

// PodStatus is the state of a Pod and its containers.
type PodStatus struct {
	// PodName is the name of the Pod.
	PodName string `json:"podName"`
	// LastRun is when it was created.
	LastRun *metav1.Time `json:"lastRun,omitempty"`
	// LastSuccessfulJobID is the last job with a successful Pod.
	LastSuccessfulJobID string `json:"lastSuccessfulJobID,omitempty"`
	// ContainerStatus is that of the container main.
	ContainerStatus ContainerStatus `json:"containerStatus"`
	// InitContainerStatus is that of the container init.
	InitContainerStatus ContainerStatus `json:"initContainerStatus"`
	// WaitContainerStatus is that of the container wait.
	WaitContainerStatus ContainerStatus `json:"waitContainerStatus"`
}

// ContainerStatus is the state of one container.
type ContainerStatus struct {
	// Message and Reason say why the container waits or has ended, if there is anything to say.
	Message string `json:"message,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// State is the kubelet's state of the container; nil if there is none yet.
	State *corev1.ContainerState `json:"state,omitempty"`
	// Image is the one of the Pod, and ImageID the one actually run, by its digest.
	Image   string `json:"image,omitempty"`
	ImageID string `json:"imageID,omitempty"`
	// ExitCode of the container; nil as long as it has not ended.
	ExitCode *int32 `json:"exitCode,omitempty"`
}
