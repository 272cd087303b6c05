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

// DefaultNamespace is where a namespaced object without a namespace goes, as with kubectl, unless its Manifest says
// otherwise.
const DefaultNamespace = "default"

// ReasonDuplicate is given to the error about an object that is in a plan twice.
const ReasonDuplicate = "DuplicateObject"

// Manifest is one object to apply, and how.
type Manifest struct {
	object.Manifest

	// DefaultNamespace is where the object goes if it names no namespace and is of a kind that has them, such as the
	// namespace of a Helm release; empty for the DefaultNamespace of kubectl.
	DefaultNamespace string
	// Settings is the path of the entry of the configuration that has Recreate and Force, for messages; nil if it has
	// none.
	Settings *field.Path
	// Policy says what may be done with the object; empty for manage.
	Policy managedresource.Policy
	// Strategy says how an existing object is changed; empty for update.
	Strategy managedresource.UpdateStrategy
	// AnnotateBeforeCreate are annotations that the object gets when it is created. Later writes leave them as they
	// are.
	AnnotateBeforeCreate map[string]string
	// PatchAfterDeployment is a JSON merge patch for Patch; nil for none. Integers are int64.
	PatchAfterDeployment map[string]any
	// Ignored are fields that belong to other clients once the object exists: they are neither compared nor written.
	Ignored []ignore.Pointer
	// Recreate replaces the object when an immutable field has to change. It deletes what depends on it, too.
	Recreate bool
	// Listed says that the settings are those of a list that has the object: Recreate then does not apply to an object
	// that would take data or objects of others along.
	Listed bool
	// Force, with the strategy apply, takes fields over from other field managers.
	Force bool

	// AnnotateBeforeDelete and PatchBeforeDelete are only noted in the inventory.
	AnnotateBeforeDelete map[string]string
	PatchBeforeDelete    *runtime.RawExtension
}

// Written returns the object as it is written when it exists: without the fields that belong to other clients.
func (m *Manifest) Written() map[string]any { return without(m.Object.Object, m.Ignored) }

// Item is one object of a plan, with its settings. Policy and Strategy are not empty.
type Item struct {
	Manifest

	Key object.Key
	// Desired is the object as it is to be, with the labels of its owner, if it has one.
	Desired *unstructured.Unstructured
	Mapping target.Mapping

	owner owner.Owner
	// definedHere says that a CustomResourceDefinition of the same plan defines the kind.
	definedHere    bool
	manifestDigest string
	// shared are fields that the manifest has dropped before and that other managers have; nil for none.
	shared *metav1.FieldsV1
}

// ignoring returns the item with more fields that belong to other clients as the target is now. Its manifest counts as the
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

// relation tells to whom an object belongs, as the item's owner sees it. Without an owner every object is nobody's.
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

// Entry returns what the inventory notes before the object is applied.
func (i *Item) Entry() managedresource.ManagedResourceStatus {
	entry := managedresource.ManagedResourceStatus{
		Policy: i.Policy, Resource: i.Reference(), PatchBeforeDelete: i.PatchBeforeDelete,
	}
	if len(i.AnnotateBeforeDelete) > 0 { // as it is when it is read again
		entry.AnnotateBeforeDelete = i.AnnotateBeforeDelete
	}
	return entry
}

// Stale tells whether a hash in the inventory was made from another manifest than the item's, or with other settings.
func (i *Item) Stale(applied string) bool { return !madeFrom(applied, i.manifestDigest) }

// Plan is a set of objects in the order in which they are applied.
type Plan struct {
	// Done tells of an entry of the inventory whether its object is done for the job that the plan is for, see
	// ManagedResourceStatus.DoneIn. One that is done and gone is not created again, as long as its manifest is the
	// same. Nil if none is.
	Done func(managedresource.ManagedResourceStatus) bool
	// Settled reports whether the job that the plan is for has applied an object in an earlier call. Such an object is
	// neither compared nor written, and one that is gone is an error. Nil if the job has applied none.
	Settled func(object.Key) bool
	// AwaitServers says that objects that make the API server call what the plan has wait until that is ready.
	AwaitServers bool
	// Recreating is told before an object is deleted to be created anew, and what goes with it that is not. It is called
	// from several goroutines. May be nil.
	Recreating func(key object.Key, lost string)
	// Held says why an object must not be deleted to be created anew; empty if it may be. It is called from several
	// goroutines. Nil if nothing is kept.
	Held func(key object.Key, uid types.UID) (why string, err error)

	// Foreign says of an object that exists why it is not one of the plan's by now; empty for one that is. Observe passes
	// over such objects. Nil if there are none.
	Foreign func(e managedresource.ManagedResourceStatus, live metav1.Object) (why string)

	stages [][]*Item
	// unknown are the objects of kinds that the target does not serve yet.
	unknown []*Item
	// host is that of the target, for messages.
	host string
	// ignored are the objects with the policy ignore.
	ignored []*Item
	// keys are those of all objects, also of those that are not in the stages.
	keys map[object.Key]*field.Path
}

// NewPlan finds out where the target serves each of the objects and sorts them. They are labelled for the owner;
// without one, which is its zero value, they stay as they are, for Observe, and for Diff with objects that somebody
// else writes. The error names all objects that occur twice; those of a kind that neither the target nor a
// CustomResourceDefinition among the objects defines are errors of Run. asOf is for Client.Mapping.
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

// keyOfUnknown returns the key of an object that is not served in its version. Another version tells whether the kind
// has namespaces; without one, the key is as the manifest is written.
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

// problems returns the errors about all objects of unknown kinds.
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
		// As the API server does with a namespace where none belongs.
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
	// The mark of a manifest that was read from a cluster is no wish of the user's.
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

// Items returns all objects that Run may apply, in the order of the stages. Those with the policy ignore and those of
// unknown kinds are not among them.
func (p *Plan) Items() []*Item { return slices.Concat(p.stages...) }

// Kept returns what the inventory would note of the objects that are not deleted when they are not wanted any more.
func (p *Plan) Kept() []managedresource.ManagedResourceStatus {
	var kept []managedresource.ManagedResourceStatus
	for _, i := range slices.Concat(p.Items(), p.unknown, p.ignored) {
		if !RuleOf(i.Policy).Deleted {
			kept = append(kept, i.Entry())
		}
	}
	return kept
}

// Keys returns the keys of all objects. The keys of objects of kinds that are not served in any version are as their
// manifests are written.
func (p *Plan) Keys() map[object.Key]bool {
	keys := make(map[object.Key]bool, len(p.keys))
	for key := range p.keys {
		keys[key] = true
	}
	return keys
}
