package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Target is a place to deploy to, with the credentials for it.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=targets,shortName=tgt;tg
// +kubebuilder:printcolumn:name="Type",type=string,JSONPath=`.spec.type`
// +kubebuilder:printcolumn:name="Context",type=string,JSONPath=`.metadata.labels['data\.landscaper\.gardener\.cloud\/context']`
// +kubebuilder:printcolumn:name="Key",type=string,JSONPath=`.metadata.labels['data\.landscaper\.gardener\.cloud\/key']`
// +kubebuilder:printcolumn:name="Idx",type=string,JSONPath=`.metadata.labels['data\.landscaper\.gardener\.cloud\/index']`
// +kubebuilder:printcolumn:name="TMKey",type=string,JSONPath=`.metadata.labels['data\.landscaper\.gardener\.cloud\/targetmapkey']`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Target struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec has the type and the content of the target.
	Spec TargetSpec `json:"spec"`
}

// TargetList is a list of Targets.
//
// +kubebuilder:object:root=true
type TargetList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Target `json:"items"`
}

// TargetType is the kind of place of a Target, such as KubernetesClusterTargetType.
type TargetType string

// TargetSpec has the type and the content of a target. At most one of Configuration and SecretRef is set.
type TargetSpec struct {
	// Type is the kind of place, and decides about the form of the content.
	Type TargetType `json:"type"`
	// Configuration is the content of the target, any JSON.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Configuration *runtime.RawExtension `json:"config,omitempty"`
	// SecretRef names a secret with the content of the target, in the namespace of the target.
	// +optional
	SecretRef *LocalSecretReference `json:"secretRef,omitempty"`
}

// ResolvedTarget is a Target together with its content, as it travels to a deployer.
type ResolvedTarget struct {
	// Target as it was read, without spec.config: only Content is for use by a deployer.
	Target *Target `json:"target"`
	// Content is the inline configuration or the content of the secret.
	Content string `json:"content"`
}
