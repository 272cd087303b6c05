package apply

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ReasonDuplicate is the reason of the error about an object that is in a plan twice.
const ReasonDuplicate = "DuplicateObject"

// Plan is a set of objects in the order of their application.
type Plan struct {
	desired.Progress

	// AwaitServers has an object wait for its servers in the plan: those the API server calls because of it.
	AwaitServers bool
	// Recreating is called before an object is deleted to be created anew, if other things are lost with it. It is
	// called from several goroutines. May be nil.
	Recreating func(key object.Key, lost string)
	// Held returns the reason against the deletion of an object to be created anew; empty for none. It is called from
	// several goroutines. Nil if nothing is kept.
	Held func(key object.Key, uid types.UID) (why string, err error)
	// TakingOver is called by Diff with each object to be written that Pergola has not labelled yet, as it is. May be nil.
	TakingOver func(Applied)

	stages [][]*desired.Object
	// unknown are the objects of kinds not served by the target yet.
	unknown []*desired.Object
	// down are the errors about their groups whose servers do not answer.
	down map[string]error
	// host is the host of the target, for messages.
	host string
	// ignored are the objects with the policy ignore.
	ignored []*desired.Object
	// keys are those of all objects, also of those outside the stages.
	keys map[object.Key]*field.Path
}

// NewPlan looks up where the target serves the objects, and sorts them. They are labelled for the owner; without one,
// its zero value, they stay as they are, for package observe, and for Diff with objects of another client. The error
// names all objects that occur twice; objects of a kind defined neither by the target nor by a
// CustomResourceDefinition among them, or of a group that is down, are errors of Run. Without an owner a group that is
// down is an error of NewPlan. asOf is for Client.Mapping.
func NewPlan(
	ctx context.Context, client *target.Client, manifests []desired.Manifest, by owner.Owner, asOf time.Time,
) (*Plan, error) {
	defined := map[schema.GroupVersionKind]target.Mapping{}
	for _, m := range manifests {
		for _, kind := range objects.Defined(m.Object) {
			defined[kind.GroupVersionKind] = kind.Mapping
		}
	}
	find := func(gvk schema.GroupVersionKind) (mapping target.Mapping, definedHere bool, err error) {
		if mapping, ok := defined[gvk]; ok {
			return mapping, true, nil
		}
		mapping, err = client.Mapping(ctx, gvk, asOf)
		return mapping, false, err
	}
	plan := &Plan{keys: map[object.Key]*field.Path{}, down: map[string]error{}, host: client.Host}
	var items []*desired.Object
	var duplicates []error
	for _, m := range manifests {
		mapping, definedHere, err := find(m.Object.GroupVersionKind())
		ignored := !objects.RuleOf(m.Policy).Managed
		var down *target.GroupError
		canWait := meta.IsNoMatchError(err) || errors.As(err, &down) && !by.IsZero()
		if err != nil && !ignored && !canWait {
			return nil, target.Explain(client.Host, err)
		}
		item := desired.New(m, mapping, definedHere, by)
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
			if down != nil {
				plan.down[down.Group] = target.Explain(client.Host, down)
			}
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
func keyOfUnknown(ctx context.Context, client *target.Client, m desired.Manifest, asOf time.Time) object.Key {
	key := object.KeyOf(m.Object)
	mapping, err := client.MappingInAnyVersion(ctx, m.Object.GroupVersionKind(), asOf)
	switch {
	case err != nil:
	case !mapping.Namespaced:
		key.Namespace = ""
	case key.Namespace == "":
		key.Namespace = m.NamespaceOrDefault()
	}
	return key
}

// unknownKind returns the error about an object of an unknown kind. It has no code: another deploy item or an operator
// may define the kind, or repair its server, while the job has time.
func (p *Plan) unknownKind(i *desired.Object) error {
	gvk := i.Object.GroupVersionKind()
	if down := p.down[gvk.Group]; down != nil {
		return down
	}
	return &sdk.Error{Reason: target.ReasonUnknownKind, Err: fmt.Errorf(
		"target cluster %s serves no kind %s in %s, and no CustomResourceDefinition of the deploy item defines it",
		p.host, gvk.Kind, gvk.GroupVersion())}
}

func (p *Plan) problems() []error {
	errs := make([]error, 0, len(p.unknown))
	for _, i := range p.unknown {
		errs = append(errs, i.About("apply", p.unknownKind(i)))
	}
	return errs
}

// Down returns an error about the groups that are down; nil for none.
func (p *Plan) Down() error {
	errs := make([]error, 0, len(p.down))
	for _, group := range slices.Sorted(maps.Keys(p.down)) {
		errs = append(errs, p.down[group])
	}
	return target.Collect(errs)
}

// Items returns all objects for Run, in the order of the stages. Those with the policy ignore and those of unknown
// kinds are not among them.
func (p *Plan) Items() []*desired.Object { return slices.Concat(p.stages...) }

// Unknown returns the objects of kinds not served by the target yet.
func (p *Plan) Unknown() []*desired.Object { return p.unknown }

// Kept returns the inventory's entries of the objects that are not deleted when they are not wanted any more.
func (p *Plan) Kept() []managedresource.ManagedResourceStatus {
	var kept []managedresource.ManagedResourceStatus
	for _, i := range slices.Concat(p.Items(), p.unknown, p.ignored) {
		if !objects.RuleOf(i.Policy).Deleted {
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

// Recorded returns the inventory's entry of an object before the call: without a uid in it, the object is created
// without being read before. It is called from several goroutines.
type Recorded func(object.Key) (e managedresource.ManagedResourceStatus, ok bool)
