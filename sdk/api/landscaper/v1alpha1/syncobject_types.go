package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// SyncObject is the lock of one controller on one object. Its name is "<prefix>-<UID of the object>".
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Namespaced,path=syncobjects,shortName=so
// +kubebuilder:printcolumn:name="PodName",type=string,JSONPath=`.spec.podName`
// +kubebuilder:printcolumn:name="Kind",type=string,JSONPath=`.spec.kind`
// +kubebuilder:printcolumn:name="Name",type=string,JSONPath=`.spec.name`
type SyncObject struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec names the holder of the lock, and the locked object.
	Spec SyncObjectSpec `json:"spec"`
	// Status is empty.
	// +optional
	Status SyncObjectStatus `json:"status,omitempty"`
}

// SyncObjectList is a list of SyncObjects.
//
// +kubebuilder:object:root=true
type SyncObjectList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []SyncObject `json:"items"`
}

// SyncObjectSpec names the holder of a lock, and the locked object.
type SyncObjectSpec struct {
	// PodName is the pod with the lock; empty if the lock is free.
	PodName string `json:"podName"`
	// Kind of the locked object.
	Kind string `json:"kind"`
	// Name of the locked object, in the namespace of the SyncObject.
	Name string `json:"name"`
	// LastUpdateTime is when PodName changed last.
	LastUpdateTime Time `json:"lastUpdateTime"`
	// Prefix names the controller.
	Prefix string `json:"prefix"`
}

// SyncObjectStatus is empty.
type SyncObjectStatus struct{}
