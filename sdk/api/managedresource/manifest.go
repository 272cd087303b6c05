package managedresource

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Policy bounds the work of a deployer on an object.
type Policy string

// The policies of an object.
const (
	// PolicyManage: the object is created, updated and deleted, whatever its origin. The default.
	PolicyManage Policy = "manage"
	// PolicyFallback: like manage, but only as long as no other client manages the object.
	PolicyFallback Policy = "fallback"
	// PolicyKeep: the object is created and updated but never deleted.
	PolicyKeep Policy = "keep"
	// PolicyIgnore: the object is left alone.
	PolicyIgnore Policy = "ignore"
	// PolicyImmutable: the object is created and deleted but never updated.
	PolicyImmutable Policy = "immutable"
)

// Policies returns all policies.
func Policies() []Policy {
	return []Policy{PolicyManage, PolicyFallback, PolicyKeep, PolicyIgnore, PolicyImmutable}
}

// UpdateStrategy is the way of bringing an existing object to its manifest.
type UpdateStrategy string

// The update strategies.
const (
	// UpdateStrategyUpdate: the manifest replaces the object. The default.
	UpdateStrategyUpdate UpdateStrategy = "update"
	// UpdateStrategyPatch: the object is patched to equal the manifest.
	UpdateStrategyPatch UpdateStrategy = "patch"
	// UpdateStrategyMerge: only fields missing in the object are taken from the manifest.
	UpdateStrategyMerge UpdateStrategy = "merge"
	// UpdateStrategyMergeOverwrite: fields of the manifest overwrite those of the object, others stay.
	UpdateStrategyMergeOverwrite UpdateStrategy = "mergeOverwrite"
	// UpdateStrategyApply: server-side apply. The fields of the manifest are set, fields of earlier manifests only are
	// removed, and all others are left to other clients. Pergola's own; Landscaper does not know it.
	UpdateStrategyApply UpdateStrategy = "apply"
)

// UpdateStrategies returns all update strategies.
func UpdateStrategies() []UpdateStrategy {
	return []UpdateStrategy{
		UpdateStrategyUpdate, UpdateStrategyPatch, UpdateStrategyMerge, UpdateStrategyMergeOverwrite, UpdateStrategyApply,
	}
}

// Manifest is an object to deploy.
type Manifest struct {
	// Policy bounds the work on the object. Defaults to manage.
	Policy Policy `json:"policy,omitempty"`
	// Manifest is the object, of any kind. A List stands for its items.
	Manifest *runtime.RawExtension `json:"manifest,omitempty"`
	// AnnotateBeforeCreate are annotations to add at the creation of the object.
	AnnotateBeforeCreate map[string]string `json:"annotateBeforeCreate,omitempty"`
	// AnnotateBeforeDelete are annotations that are set before the object is deleted.
	AnnotateBeforeDelete map[string]string `json:"annotateBeforeDelete,omitempty"`
	// PatchAfterDeployment is merged into the object once it is ready and exported from.
	PatchAfterDeployment *runtime.RawExtension `json:"patchAfterDeployment,omitempty"`
	// PatchBeforeDelete is merged into the object before it is deleted.
	PatchBeforeDelete *runtime.RawExtension `json:"patchBeforeDelete,omitempty"`
	// Recreate has the object deleted and created anew where an immutable field rules out a change of the manifest.
	// Pergola's own; Landscaper does not know it.
	Recreate bool `json:"recreate,omitempty"`
	// Force, with the update strategy apply, takes over fields applied by others with other values; without it they are a
	// conflict, hence an error. Pergola's own; Landscaper does not know it.
	Force bool `json:"force,omitempty"`
}

// IgnoreDifferences are fields of other clients: written at the creation of an object, and neither compared nor written
// later. Pergola's own; Landscaper does not know it.
type IgnoreDifferences struct {
	// Kind of the objects, in any group.
	Kind string `json:"kind"`
	// Name of the object. Defaults to all objects of the kind.
	Name string `json:"name,omitempty"`
	// JSONPointers are the paths of the fields, such as /spec/replicas, as in RFC 6901. The path of an element stands for
	// its whole list.
	JSONPointers []string `json:"jsonPointers"`
}

// SettledMark ends ManagedResourceStatus.Applied of an object applied in the job in progress: later calls of the job
// leave the object as it is. It is one byte, since a provider status with thousands of objects is at the size limit of
// an API server.
const SettledMark = "*"

// ManagedResourceStatus is a deployer's record of one managed object.
type ManagedResourceStatus struct { //nolint:revive // the name is Landscaper's
	// Policy at the last application of the object. Empty means manage.
	Policy Policy `json:"policy,omitempty"`
	// Resource names the object.
	Resource ObjectReference `json:"resource"`
	// AnnotateBeforeDelete are annotations that are set before the object is deleted.
	AnnotateBeforeDelete map[string]string `json:"annotateBeforeDelete,omitempty"`
	// PatchBeforeDelete is merged into the object before it is deleted.
	PatchBeforeDelete *runtime.RawExtension `json:"patchBeforeDelete,omitempty"`
	// Applied is a digest of the object as last applied and of the API server's answer. With it a deployer finds out
	// without a write whether there is something to write. A trailing SettledMark stands for an object applied in the job
	// in the field settledIn of the provider status. Pergola's own; Landscaper ignores it.
	Applied string `json:"applied,omitempty"`
	// DoneIn is the job in which the object was seen complete, or was applied as a kind of object that disappears by
	// itself after its end. In this job, and in later jobs from hooks such as a schedule, the object is not missed.
	// Pergola's own; Landscaper ignores it.
	DoneIn string `json:"doneIn,omitempty"`
	// Existed marks a CustomResourceDefinition not created by the deploy item: it was there before the first application.
	// Pergola's own; Landscaper ignores it.
	Existed bool `json:"existed,omitempty"`
	// Shared are fields dropped from the manifest but also set by other field managers, as managedFields write them. Force
	// removes them. Pergola's own; Landscaper ignores it.
	Shared string `json:"shared,omitempty"`
}

// ObjectReference names an object and, if UID is known, the very instance of it. It reads and writes like a
// Kubernetes core ObjectReference.
type ObjectReference struct {
	// APIVersion of the object, such as "apps/v1".
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the object.
	Kind string `json:"kind,omitempty"`
	// Name of the object.
	Name string `json:"name,omitempty"`
	// Namespace of the object; empty for a cluster-scoped one.
	Namespace string `json:"namespace,omitempty"`
	// UID of the object; empty as long as it is not known to exist.
	UID types.UID `json:"uid,omitempty"`
	// ResourceVersion of the object. Read but not written.
	ResourceVersion string `json:"resourceVersion,omitempty"`
	// FieldPath names a part of the object. Read but not written.
	FieldPath string `json:"fieldPath,omitempty"`
}

// TypedObjectReference names an object by kind and name.
type TypedObjectReference struct {
	// APIVersion of the object, such as "apps/v1".
	APIVersion string `json:"apiVersion"`
	// Kind of the object.
	Kind string `json:"kind"`
	// Name of the object.
	Name string `json:"name"`
	// Namespace of the object; empty for a cluster-scoped one.
	Namespace string `json:"namespace,omitempty"`
}
