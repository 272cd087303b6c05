package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DeployerRegistration registers types of deploy items, and an HTTP hook for their items. It is for administrators of
// the cluster: the hook sees the items of all namespaces and may change their objects.
//
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:resource:scope=Cluster,path=deployerregistrations,shortName=deployreg;deployerreg;dreg
// +kubebuilder:printcolumn:name="Types",type=string,JSONPath=`.spec.types`
// +kubebuilder:printcolumn:name="Hook URL",type=string,JSONPath=`.status.hook.url`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type DeployerRegistration struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// Spec is written by an administrator.
	Spec DeployerRegistrationSpec `json:"spec"`
	// Status is written by the host.
	// +optional
	Status DeployerRegistrationStatus `json:"status,omitempty"`
}

// DeployerRegistrationList is a list of DeployerRegistrations.
//
// +kubebuilder:object:root=true
type DeployerRegistrationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []DeployerRegistration `json:"items"`
}

// DeployerRegistrationSpec is the content of a registration.
type DeployerRegistrationSpec struct {
	// Types are the registered types of deploy items: at least one, none twice.
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=64
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=253
	// +listType=set
	Types []DeployItemType `json:"types"`
	// InstallationTemplate is kept as it is and never read: plugins are not installed by a Landscaper.
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:validation:Type=object
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	InstallationTemplate *runtime.RawExtension `json:"installationTemplate,omitempty"`
	// Hook is called for the items of the types.
	// +optional
	Hook *Hook `json:"hook,omitempty"`
}

// Hook is an HTTP server that takes part in each reconcile or deletion of an item. Credentials, from auth and tls, need
// an address of scheme https.
//
// +kubebuilder:validation:XValidation:rule="!(has(self.auth) || has(self.tls)) || !has(self.address.uri) || !self.address.uri.startsWith('http:')",message="auth and tls need an address of scheme https"
// +kubebuilder:validation:XValidation:rule="!(has(self.auth) || has(self.tls)) || !has(self.address.ref) || self.address.ref.apiVersion != 'v1' || self.address.ref.kind != 'Service' || has(self.address.uri) && self.address.uri.startsWith('https:')",message="auth and tls need an address of scheme https; a Service has it with uri: https://"
type Hook struct {
	// Version of the Hooks API of the server.
	Version HookVersion `json:"version"`
	// Address of the server.
	Address HookAddress `json:"address"`
	// Timeout of one request, an ISO 8601 duration of hours, minutes and seconds such as PT0.5S or PT1M30S, above zero and
	// at most ten minutes. Defaults to 15 seconds.
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^PT([0-9]+([.][0-9]+)?H)?([0-9]+([.][0-9]+)?M)?([0-9]+([.][0-9]+)?S)?$') && self.size() > 2 && duration(self.substring(2).lowerAscii()) > duration('0s') && duration(self.substring(2).lowerAscii()) <= duration('10m')",message="the timeout is an ISO 8601 duration of hours, minutes and seconds, above zero and at most PT10M, such as PT15S"
	// +optional
	Timeout string `json:"timeout,omitempty"`
	// Capabilities are the phases with a call of the server. Without any it is never called.
	// +kubebuilder:validation:MaxItems=2
	// +listType=set
	// +optional
	Capabilities []HookCapability `json:"capabilities,omitempty"`
	// FormFactor is the name of the form factor in requests to the server. Defaults to the name of the item's plugin.
	// +kubebuilder:validation:MaxLength=253
	// +optional
	FormFactor string `json:"formFactor,omitempty"`
	// ConditionsFromHook are the server's conditions for the status of items. All others from it are ignored.
	// +kubebuilder:validation:MaxItems=16
	// +listType=map
	// +listMapKey=type
	// +optional
	ConditionsFromHook []HookCondition `json:"conditionsFromHook,omitempty"`
	// TLS says how to know the server, and how to be known by it.
	// +optional
	TLS *HookTLS `json:"tls,omitempty"`
	// Auth says how to log in at the server.
	// +optional
	Auth *HookAuth `json:"auth,omitempty"`
}

// HookVersion is a version of the Hooks API.
//
// +kubebuilder:validation:Enum=v1
type HookVersion string

// HookVersionV1 is the only version of the Hooks API.
const HookVersionV1 HookVersion = "v1"

// HookCapability is a phase of the reconcile flow with a call of the hook.
//
// +kubebuilder:validation:Enum=pre-reconcile;finalize
type HookCapability string

// The capabilities of hooks.
const (
	// HookPreReconcile: the hook is called before the desired objects are applied, and may change them.
	HookPreReconcile HookCapability = "pre-reconcile"
	// HookFinalize: the hook is called before the deployer deletes anything. The deletion waits for its success.
	HookFinalize HookCapability = "finalize"
)

// HookAddress is where a hook is: the URI, or the address from the reference. If both are given then the scheme, the
// port, the path and the query of the URI, each if it is there, replace those of the reference.
//
// +kubebuilder:validation:XValidation:rule="has(self.uri) || has(self.ref)",message="the address needs uri, ref or both"
// +kubebuilder:validation:XValidation:rule="has(self.ref) || !has(self.uri) || self.uri.matches('^https?://[^/?#:]')",message="without ref the uri is absolute and names a host, such as https://hooks.example.org/v1"
// +kubebuilder:validation:XValidation:rule="!has(self.ref) || !has(self.uri) || !self.uri.matches('^(https?:)?//[^/?#:]')",message="with ref the uri has no host; the ref says it. Write http://:8080/v1 to choose scheme, port and path"
type HookAddress struct {
	// URI of scheme http or https, without user and password and without fragment.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule=`self.matches(r'^((https?:)?//([^/?#@:\[\]\\\s]*|\[[0-9A-Fa-f:.]+\])(:([1-9][0-9]{0,3}|[1-5][0-9]{4}|6[0-4][0-9]{3}|65[0-4][0-9]{2}|655[0-2][0-9]|6553[0-5]))?)?(/([^/?#\s][^?#\s]*)?)?(\?[^#\s]*)?$')`,message="the uri has the scheme http or https, a port from 1 to 65535 and a path that begins with /, each if it is there, and neither user, password nor fragment"
	// +optional
	URI string `json:"uri,omitempty"`
	// Ref names a Service, or any object with a URL in .status.address.url.
	// +optional
	Ref *HookReference `json:"ref,omitempty"`
}

// HookReference names the object with the address of a hook.
//
// +kubebuilder:validation:XValidation:rule="self.apiVersion != 'v1' || self.kind != 'Service' || has(self.__namespace__)",message="a Service needs a namespace"
type HookReference struct {
	// APIVersion of the object, such as v1 or serving.knative.dev/v1.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?v[a-z0-9]+$`
	APIVersion string `json:"apiVersion"`
	// Kind of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Za-z][A-Za-z0-9]*$`
	Kind string `json:"kind"`
	// Namespace of the object; empty for a kind without namespaces.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// HookCondition names a condition of a hook.
type HookCondition struct {
	// Type of the condition, in CamelCase, and none of the host's own.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[A-Z][A-Za-z0-9]*$`
	// +kubebuilder:validation:XValidation:rule="!(self in ['Ready', 'Reconciling', 'Stalled', 'PickedUp', 'Started', 'Forced', 'PluginCrashes', 'HookAnswered', 'Finalized', 'Served', 'NextTry', 'Paused', 'Held', 'Moving', 'TimeLimited'])",message="the host sets this condition itself; choose another name"
	Type ConditionType `json:"type"`
}

// HookTLS says how a hook and the host know each other.
type HookTLS struct {
	// SecretRef names a secret with ca.crt, the authorities for the server's certificate, and the pair tls.crt and
	// tls.key, the host's own certificate. Each may be missing; without ca.crt the authorities of the host's system count.
	// +optional
	SecretRef *NamespacedSecretReference `json:"secretRef,omitempty"`
	// ServerName is the name in the server's certificate. Defaults to the host of the address.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[A-Za-z0-9]([-.:A-Za-z0-9]*[A-Za-z0-9])?$`
	// +optional
	ServerName string `json:"serverName,omitempty"`
}

// HookAuth says how to log in at a hook.
type HookAuth struct {
	// SecretRef names a secret with either the key token, for a bearer token, or username and password.
	SecretRef NamespacedSecretReference `json:"secretRef"`
}

// NamespacedSecretReference names a secret in any namespace.
type NamespacedSecretReference struct {
	// Namespace of the secret.
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?$`
	Namespace string `json:"namespace"`
	// Name of the secret.
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-.a-z0-9]*[a-z0-9])?$`
	Name string `json:"name"`
}

// DeployerRegistrationStatus is the host's answer to a registration.
type DeployerRegistrationStatus struct {
	// ObservedGeneration is the generation of the spec behind the rest of the status.
	// +optional
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// Conditions say whether the types are served and whether the hook can be called.
	// +optional
	Conditions []Condition `json:"conditions,omitempty"`
	// Hook is the hook's resolved address; nil without a hook, or while it does not resolve.
	// +optional
	Hook *HookStatus `json:"hook,omitempty"`
	// Deployers are the plugins for the types.
	// +kubebuilder:validation:MaxItems=1024
	// +optional
	Deployers []RegisteredDeployer `json:"deployers,omitempty"`
}

// HookStatus is a hook's resolved address.
type HookStatus struct {
	// URL without the query, since that may hold a secret.
	URL string `json:"url"`
}

// RegisteredDeployer is a plugin for a type.
type RegisteredDeployer struct {
	// Type of deploy items.
	Type DeployItemType `json:"type"`
	// Plugin is the name of the plugin.
	Plugin string `json:"plugin"`
	// Version of the plugin.
	Version string `json:"version"`
	// Replicas of the host with the plugin in this version.
	Replicas int32 `json:"replicas"`
}
