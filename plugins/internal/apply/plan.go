package apply

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/ignore"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// DefaultNamespace is the namespace for a namespaced object without one, as with kubectl, unless its Manifest has
// another.
const DefaultNamespace = "default"

// ReasonDuplicate is the reason of the error about an object that is in a plan twice.
const ReasonDuplicate = "DuplicateObject"

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
	// PatchAfterDeployment is a JSON merge patch for Patch; nil for none. Integers are int64.
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

// Item is one object of a plan, with its settings. Policy and Strategy are not empty.
type Item struct {
	Manifest

	Key object.Key
	// Desired is the object as it is to be, with the labels of its owner, if it has one.
	Desired *unstructured.Unstructured
	Mapping target.Mapping

	owner owner.Owner
	// definedHere: a CustomResourceDefinition of the same plan defines the kind.
	definedHere    bool
	manifestDigest string
	// shared are the fields dropped from the manifest before and set by other managers; nil for none.
	shared *metav1.FieldsV1
}

// ignoring returns the item with more fields of other clients, as found on the target. Its manifest counts as the
// same.
func (i *Item) ignoring(more ...ignore.Pointer) *Item {
	if len(more) == 0 {
		return i
	}
	out := *i
	out.Ignored = slices.Concat(i.Ignored, more)
	return &out
}

// labels are those of the owner; none for an object without one.
func (i *Item) labels() map[string]string {
	if i.owner.IsZero() {
		return nil
	}
	return i.owner.Labels()
}

// relation returns the relation of an object to the item's owner. Without an owner every object is Nobodys.
func (i *Item) relation(live *unstructured.Unstructured) owner.Relation {
	if i.owner.IsZero() {
		return owner.Nobodys
	}
	return i.owner.Of(live)
}

// Reference returns a reference to the object, without uid.
func (i *Item) Reference() managedresource.ObjectReference {
	return managedresource.ObjectReference{
		APIVersion: i.Desired.GetAPIVersion(),
		Kind:       i.Key.Kind,
		Namespace:  i.Key.Namespace,
		Name:       i.Key.Name,
	}
}

// Entry returns the entry of the inventory before the object is applied.
func (i *Item) Entry() managedresource.ManagedResourceStatus {
	entry := managedresource.ManagedResourceStatus{
		Policy: i.Policy, Resource: i.Reference(), PatchBeforeDelete: i.PatchBeforeDelete,
	}
	if len(i.AnnotateBeforeDelete) > 0 { // as it is when it is read again
		entry.AnnotateBeforeDelete = i.AnnotateBeforeDelete
	}
	return entry
}

// Stale reports whether a hash in the inventory was made from another manifest than the item's, or with other
// settings.
func (i *Item) Stale(applied string) bool { return !madeFrom(applied, i.manifestDigest) }

// Plan is a set of objects in the order of their application.
type Plan struct {
	// Done reports whether the object of an entry is completed for the job of the plan, see
	// ManagedResourceStatus.DoneIn. A completed object, once gone, is not created again as long as its manifest is the
	// same. Nil if none is completed.
	Done func(managedresource.ManagedResourceStatus) bool
	// Settled reports whether the job of the plan has applied an object in an earlier call. Such an object is neither
	// compared nor written, and its absence is an error. Nil if the job has applied none.
	Settled func(object.Key) bool
	// AwaitServers has an object wait for its servers in the plan: those the API server calls because of it.
	AwaitServers bool
	// Recreating is called before an object is deleted to be created anew, if other things are lost with it. It is
	// called from several goroutines. May be nil.
	Recreating func(key object.Key, lost string)
	// Held returns the reason against the deletion of an object to be created anew; empty for none. It is called from
	// several goroutines. Nil if nothing is kept.
	Held func(key object.Key, uid types.UID) (why string, err error)

	// Foreign returns the reason why an existing object is not the plan's any more; empty for an object of the plan.
	// Observe passes over foreign objects. Nil if there are none.
	Foreign func(e managedresource.ManagedResourceStatus, live metav1.Object) (why string)

	stages [][]*Item
	// unknown are the objects of kinds not served by the target yet.
	unknown []*Item
	// host is the host of the target, for messages.
	host string
	// ignored are the objects with the policy ignore.
	ignored []*Item
	// keys are those of all objects, also of those outside the stages.
	keys map[object.Key]*field.Path
}

// NewPlan looks up where the target serves the objects, and sorts them. They are labelled for the owner; without one,
// its zero value, they stay as they are, for Observe, and for Diff with objects of another client. The error names
// all objects that occur twice; objects of a kind defined neither by the target nor by a CustomResourceDefinition
// among them are errors of Run. asOf is for Client.Mapping.
func NewPlan(
	ctx context.Context, client *target.Client, manifests []Manifest, by owner.Owner, asOf time.Time,
) (*Plan, error) {
	defined := map[schema.GroupVersionKind]target.Mapping{}
	for _, m := range manifests {
		addDefined(defined, m.Object)
	}
	find := func(gvk schema.GroupVersionKind) (mapping target.Mapping, definedHere bool, err error) {
		if mapping, ok := defined[gvk]; ok {
			return mapping, true, nil
		}
		mapping, err = client.Mapping(ctx, gvk, asOf)
		return mapping, false, err
	}
	plan := &Plan{keys: map[object.Key]*field.Path{}, host: client.Host}
	var items []*Item
	var duplicates []error
	for _, m := range manifests {
		mapping, definedHere, err := find(m.Object.GroupVersionKind())
		ignored := !RuleOf(m.Policy).Managed
		if err != nil && !ignored && !meta.IsNoMatchError(err) {
			return nil, target.Explain(client.Host, err)
		}
		item := newItem(m, mapping, definedHere, by)
		if err != nil {
			item.Key = keyOfUnknown(ctx, client, m, asOf)
		}
		first, duplicate := plan.keys[item.Key]
		switch {
		case duplicate:
			duplicates = append(duplicates,
				sdk.ConfigurationError(ReasonDuplicate, "%s: %s is already in %s", m.Path, item.Key, first))
			continue
		case ignored:
			plan.ignored = append(plan.ignored, item)
		case err != nil:
			plan.unknown = append(plan.unknown, item)
		default:
			items = append(items, item)
		}
		plan.keys[item.Key] = m.Path
	}
	plan.stages = order(items)
	return plan, target.Collect(duplicates)
}

// keyOfUnknown returns the key of an object not served in its version. Another version shows whether the kind has
// namespaces; without one, the key is as in the manifest.
func keyOfUnknown(ctx context.Context, client *target.Client, m Manifest, asOf time.Time) object.Key {
	key := object.KeyOf(m.Object)
	mapping, err := client.MappingInAnyVersion(ctx, m.Object.GroupVersionKind(), asOf)
	switch {
	case err != nil:
	case !mapping.Namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = m.defaultNamespace()
	}
	return key
}

// unknownKind returns the error about an object of an unknown kind. It has no code: another deploy item or an operator
// may define the kind while the job has time.
func (p *Plan) unknownKind(i *Item) error {
	gvk := i.Object.GroupVersionKind()
	return &sdk.Error{Reason: target.ReasonUnknownKind, Err: fmt.Errorf(
		"target cluster %s serves no kind %s in %s, and no CustomResourceDefinition of the deploy item defines it",
		p.host, gvk.Kind, gvk.GroupVersion())}
}

func (p *Plan) problems() []error {
	errs := make([]error, 0, len(p.unknown))
	for _, i := range p.unknown {
		errs = append(errs, about("apply", i, p.unknownKind(i)))
	}
	return errs
}

func newItem(m Manifest, mapping target.Mapping, definedHere bool, by owner.Owner) *Item {
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
		desired.SetNamespace(m.defaultNamespace())
	}
	item := &Item{
		Manifest:    m,
		Key:         object.KeyOf(desired),
		Desired:     desired,
		Mapping:     mapping,
		owner:       by,
		definedHere: definedHere,
	}
	// The mark in a manifest read from a cluster is no wish of the user's.
	unstructured.RemoveNestedField(desired.Object, "metadata", "annotations", owner.InstallationAnnotation)
	setLabels(desired, item.labels())
	item.manifestDigest = item.digestOfManifest()
	return item
}

func (m *Manifest) defaultNamespace() string { return cmp.Or(m.DefaultNamespace, DefaultNamespace) }

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

// Items returns all objects for Run, in the order of the stages. Those with the policy ignore and those of unknown
// kinds are not among them.
func (p *Plan) Items() []*Item { return slices.Concat(p.stages...) }

// Kept returns the inventory's entries of the objects that are not deleted when they are not wanted any more.
func (p *Plan) Kept() []managedresource.ManagedResourceStatus {
	var kept []managedresource.ManagedResourceStatus
	for _, i := range slices.Concat(p.Items(), p.unknown, p.ignored) {
		if !RuleOf(i.Policy).Deleted {
			kept = append(kept, i.Entry())
		}
	}
	return kept
}

// Keys returns the keys of all objects. The keys of objects of kinds not served in any version are as in their
// manifests.
func (p *Plan) Keys() map[object.Key]bool {
	keys := make(map[object.Key]bool, len(p.keys))
	for key := range p.keys {
		keys[key] = true
	}
	return keys
}
