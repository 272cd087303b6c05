package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Context holds the common settings of the items of a namespace: registries, their credentials, and settings of
// deployers.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:scope=Namespaced,path=contexts,shortName=ctx
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type Context struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	ContextConfiguration `json:",inline"`
}

// ContextList is a list of Contexts.
//
// +kubebuilder:object:root=true
type ContextList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []Context `json:"items"`
}

// ContextConfiguration is the content of a Context. It has no spec of its own.
type ContextConfiguration struct {
	// RepositoryContext is where components are looked up, any JSON object.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	RepositoryContext *runtime.RawExtension `json:"repositoryContext,omitempty"`
	// OCMConfig names a ConfigMap with the key ".ocmconfig".
	// +optional
	OCMConfig *LocalObjectReference `json:"ocmConfig,omitempty"`
	// RegistryPullSecrets name secrets with credentials for registries.
	// +optional
	RegistryPullSecrets []LocalObjectReference `json:"registryPullSecrets,omitempty"`
	// Configurations are settings of deployers, by key.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Configurations map[string]runtime.RawExtension `json:"configurations,omitempty"`
	// ComponentVersionOverwritesReference names a ComponentVersionOverwrites object.
	// +optional
	ComponentVersionOverwritesReference string `json:"componentVersionOverwrites,omitempty"`
	// VerificationSignatures are the keys for verifying component versions, by name of the signature.
	// +optional
	VerificationSignatures map[string]VerificationSignature `json:"verificationSignatures,omitempty"`
}

// VerificationSignature names the key of one signature. At most one of the fields is set.
type VerificationSignature struct {
	// PublicKeySecretReference names a secret with a public key.
	// +optional
	PublicKeySecretReference *SecretReference `json:"publicKeySecretReference,omitempty"`
	// CaCertificateSecretReference names a secret with a certificate of an authority.
	// +optional
	CaCertificateSecretReference *SecretReference `json:"caCertificateSecretReference,omitempty"`
}

// SecretReference names a key of a secret.
type SecretReference struct {
	ObjectReference `json:",inline"`
	// Key in the secret's data.
	// +optional
	Key string `json:"key,omitempty"`
}
