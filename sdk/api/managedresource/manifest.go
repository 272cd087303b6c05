package managedresource

import (
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// Policy says what a deployer may do with an object.
type Policy string

// The policies of an object.
const (
	// PolicyManage: the object is created, updated and deleted, whoever made it. The default.
	PolicyManage Policy = "manage"
	// PolicyFallback: like manage, but only as long as nobody else manages the object.
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

// UpdateStrategy says how an object that exists already is brought to its manifest.
type UpdateStrategy string

// The update strategies.
const (
	// UpdateStrategyUpdate: the manifest replaces the object. The default.
	UpdateStrategyUpdate UpdateStrategy = "update"
	// UpdateStrategyPatch: the object is patched to equal the manifest.
	UpdateStrategyPatch UpdateStrategy = "patch"
	// UpdateStrategyMerge: only fields that the object lacks are taken from the manifest.
	UpdateStrategyMerge UpdateStrategy = "merge"
	// UpdateStrategyMergeOverwrite: fields of the manifest overwrite those of the object, others stay.
	UpdateStrategyMergeOverwrite UpdateStrategy = "mergeOverwrite"
	// UpdateStrategyApply: server-side apply. The manifest says what is to become of the fields that it names, those
	// that it named before are removed, and all others belong to others. Pergola's own; Landscaper does not know it.
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
	// Policy says what may be done with the object. Defaults to manage.
	Policy Policy `json:"policy,omitempty"`
	// Manifest is the object, of any kind. A List stands for its items.
	Manifest *runtime.RawExtension `json:"manifest,omitempty"`
	// AnnotateBeforeCreate are annotations that are added when the object is created.
	AnnotateBeforeCreate map[string]string `json:"annotateBeforeCreate,omitempty"`
	// AnnotateBeforeDelete are annotations that are set before the object is deleted.
	AnnotateBeforeDelete map[string]string `json:"annotateBeforeDelete,omitempty"`
	// PatchAfterDeployment is merged into the object once it is ready and exported from.
	PatchAfterDeployment *runtime.RawExtension `json:"patchAfterDeployment,omitempty"`
	// PatchBeforeDelete is merged into the object before it is deleted.
	PatchBeforeDelete *runtime.RawExtension `json:"patchBeforeDelete,omitempty"`
	// Recreate says that the object is deleted and created anew when a change of the manifest cannot be made to it as it
	// is, because a field is immutable. Pergola's own; Landscaper does not know it.
	Recreate bool `json:"recreate,omitempty"`
	// Force, with the update strategy apply, takes over the fields that others have applied with other values; without
	// it they are a conflict, which is an error. Pergola's own; Landscaper does not know it.
	Force bool `json:"force,omitempty"`
}

// IgnoreDifferences are fields that belong to other clients: they are written when an object is created, and neither
// compared nor written later. Pergola's own; Landscaper does not know it.
type IgnoreDifferences struct {
	// Kind of the objects, in any group.
	Kind string `json:"kind"`
	// Name of the object. Defaults to all objects of the kind.
	Name string `json:"name,omitempty"`
	// JSONPointers are the paths of the fields, such as /spec/replicas, as in RFC 6901. One that leads to an element of a
	// list stands for the whole list.
	JSONPointers []string `json:"jsonPointers"`
}

// SettledMark ends ManagedResourceStatus.Applied of an object that the job in progress has applied: later calls of the
// job leave the object as it is. It is one byte, since a provider status with thousands of objects is at the limit of
// what an API server stores.
const SettledMark = "*"

// ManagedResourceStatus is what a deployer keeps about one object that it manages.
type ManagedResourceStatus struct { //nolint:revive // the name is Landscaper's
	// Policy that the object was applied with. Empty means manage.
	Policy Policy `json:"policy,omitempty"`
	// Resource names the object.
	Resource ObjectReference `json:"resource"`
	// AnnotateBeforeDelete are annotations that are set before the object is deleted.
	AnnotateBeforeDelete map[string]string `json:"annotateBeforeDelete,omitempty"`
	// PatchBeforeDelete is merged into the object before it is deleted.
	PatchBeforeDelete *runtime.RawExtension `json:"patchBeforeDelete,omitempty"`
	// Applied is a digest of what was applied last and of what the API server made of it. It lets a deployer tell
	// without a write whether there is something to write. A trailing SettledMark says that the job in the field
	// settledIn of the provider status has applied the object. Pergola's own; Landscaper ignores it.
	Applied string `json:"applied,omitempty"`
	// DoneIn is the job of the deploy item in which the object was seen complete, or was applied as one that is deleted
	// by itself when it has finished. In that job, and in those that hooks such as a schedule ask for after it, nobody
	// misses the object. Pergola's own; Landscaper ignores it.
	DoneIn string `json:"doneIn,omitempty"`
	// Existed says of a CustomResourceDefinition that the deploy item has not created it: it was there when the deploy
	// item applied it first. Pergola's own; Landscaper ignores it.
	Existed bool `json:"existed,omitempty"`
	// Shared are the fields that the manifest has dropped and that other field managers have set too, as managedFields
	// write them. Force removes them. Pergola's own; Landscaper ignores it.
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
