package desired

import (
	"cmp"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// DefaultNamespace is the namespace for a namespaced object without one, as with kubectl, unless its Manifest has
// another.
const DefaultNamespace = "default"

// Manifest is an object to apply, with its settings.
type Manifest struct {
	object.Manifest

	// DefaultNamespace is the namespace for a namespaced object without one, such as the namespace of a Helm release;
	// empty for the DefaultNamespace of kubectl.
	DefaultNamespace string
	// Settings is the path of the configuration's entry with Recreate and Force, for messages; nil if there is none.
	Settings *field.Path
	// Policy has the permitted actions on the object; empty for manage.
	Policy managedresource.Policy
	// Strategy is the way to change an existing object; empty for update.
	Strategy managedresource.UpdateStrategy
	// AnnotateBeforeCreate are annotations for the creation of the object. Later writes leave them as they are.
	AnnotateBeforeCreate map[string]string
	// PatchAfterDeployment is a JSON merge patch for apply.Patch; nil for none. Integers are int64.
	PatchAfterDeployment map[string]any
	// Ignored are the fields of other clients in an existing object: they are neither compared nor written.
	Ignored []ignore.Pointer
	// Recreate replaces the object for a change of an immutable field. It deletes its dependents, too.
	Recreate bool
	// Listed: the settings are those of a list with the object. Then Recreate does not apply to an object whose deletion
	// would take data or objects of others along.
	Listed bool
	// Force, with the strategy apply, takes fields over from other field managers.
	Force bool

	// AnnotateBeforeDelete and PatchBeforeDelete are only noted in the inventory.
	AnnotateBeforeDelete map[string]string
	PatchBeforeDelete    *runtime.RawExtension
}

// Written returns the object for a write over an existing one: without the fields of other clients.
func (m *Manifest) Written() map[string]any { return without(m.Object.Object, m.Ignored) }

// Object is one object of a plan, with its settings. Policy and Strategy are not empty.
type Object struct {
	Manifest

	Key object.Key
	// Desired is the object as it is to be, with the labels of its owner, if it has one.
	Desired *unstructured.Unstructured
	Mapping target.Mapping

	Owner owner.Owner
	// DefinedHere: a CustomResourceDefinition of the same plan defines the kind.
	DefinedHere    bool
	manifestDigest string
	// Shared are the fields dropped from the manifest before and set by other managers; nil for none.
	Shared *metav1.FieldsV1
}

// Ignoring returns the object with more fields of other clients, as found on the target. Its manifest counts as the
// same.
func (i *Object) Ignoring(more ...ignore.Pointer) *Object {
	if len(more) == 0 {
		return i
	}
	out := *i
	out.Ignored = slices.Concat(i.Ignored, more)
	return &out
}

// Labels are those of the owner; none for an object without one.
func (i *Object) Labels() map[string]string {
	if i.Owner.IsZero() {
		return nil
	}
	return i.Owner.Labels()
}

// Relation returns the relation of a live object to the owner. Without an owner every object is Nobodys.
func (i *Object) Relation(live *unstructured.Unstructured) owner.Relation {
	if i.Owner.IsZero() {
		return owner.Nobodys
	}
	return i.Owner.Of(live)
}

// Reference returns a reference to the object, without uid.
func (i *Object) Reference() managedresource.ObjectReference {
	return managedresource.ObjectReference{
		APIVersion: i.Desired.GetAPIVersion(),
		Kind:       i.Key.Kind,
		Namespace:  i.Key.Namespace,
		Name:       i.Key.Name,
	}
}

// Entry returns the entry of the inventory before the object is applied.
func (i *Object) Entry() managedresource.ManagedResourceStatus {
	entry := managedresource.ManagedResourceStatus{
		Policy: i.Policy, Resource: i.Reference(), PatchBeforeDelete: i.PatchBeforeDelete,
	}
	if len(i.AnnotateBeforeDelete) > 0 { // as it is when it is read again
		entry.AnnotateBeforeDelete = i.AnnotateBeforeDelete
	}
	return entry
}

// Stale reports whether a hash in the inventory was made from another manifest than the object's, or with other
// settings.
func (i *Object) Stale(applied string) bool { return !madeFrom(applied, i.manifestDigest) }

// About adds the object of an error and its place in the configuration; nil for nil.
func (i *Object) About(doing string, err error) error {
	switch {
	case err == nil:
		return nil
	case i.Path == nil:
		return fmt.Errorf("%s %s: %w", doing, i.Key, err)
	default:
		return fmt.Errorf("%s: %s %s: %w", i.Path, doing, i.Key, err)
	}
}

// New returns the object of a manifest, with the labels of its owner. definedHere: a CustomResourceDefinition of the
// same plan defines its kind.
func New(m Manifest, mapping target.Mapping, definedHere bool, by owner.Owner) *Object {
	if m.Policy == "" {
		m.Policy = managedresource.PolicyManage
	}
	if m.Strategy == "" {
		m.Strategy = managedresource.UpdateStrategyUpdate
	}
	desired := m.Object.DeepCopy()
	switch {
	case !mapping.Namespaced:
		// As the API server does for a cluster-scoped kind.
		desired.SetNamespace("")
	case desired.GetNamespace() == "":
		desired.SetNamespace(m.NamespaceOrDefault())
	}
	item := &Object{
		Manifest:    m,
		Key:         object.KeyOf(desired),
		Desired:     desired,
		Mapping:     mapping,
		Owner:       by,
		DefinedHere: definedHere,
	}
	// The mark in a manifest read from a cluster is no wish of the user's.
	unstructured.RemoveNestedField(desired.Object, "metadata", "annotations", owner.InstallationAnnotation)
	setLabels(desired, item.Labels())
	item.manifestDigest = item.digestOfManifest()
	return item
}

// NamespaceOrDefault is the namespace for a namespaced object without one.
func (m *Manifest) NamespaceOrDefault() string { return cmp.Or(m.DefaultNamespace, DefaultNamespace) }

func setLabels(o *unstructured.Unstructured, more map[string]string) {
	if len(more) == 0 {
		return
	}
	labels := o.GetLabels()
	if labels == nil {
		labels = map[string]string{}
	}
	for key, value := range more {
		labels[key] = value
	}
	o.SetLabels(labels)
}

// Finally returns an object in its state after patchAfterDeployment. A map then empty is left out, as the API server
// leaves out most such maps, but not all: compare the result only with another result of Finally.
func (i *Object) Finally(o *unstructured.Unstructured) *unstructured.Unstructured {
	if i.PatchAfterDeployment == nil {
		return o
	}
	after := objects.Patched(o.Object, i.PatchAfterDeployment)
	return &unstructured.Unstructured{Object: objects.WithoutEmptied(after, i.PatchAfterDeployment)}
}
