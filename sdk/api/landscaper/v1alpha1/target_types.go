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

	// Spec says what and where the target is.
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

// TargetType tells what a Target is, such as KubernetesClusterTargetType.
type TargetType string

// TargetSpec says what and where a target is. At most one of Configuration and SecretRef is set.
type TargetSpec struct {
	// Type tells what the target is and so what its content looks like.
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
	// Target as it was read, without spec.config: what a deployer may use is in Content alone.
	Target *Target `json:"target"`
	// Content is the inline configuration or what the secret holds.
	Content string `json:"content"`
}
