package apply

import (
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// DefaultNamespace is where a namespaced object without a namespace goes, as with kubectl.
const DefaultNamespace = "default"

// Item is one object of a plan.
type Item struct {
	Key object.Key
	// Desired is the object as it is to be.
	Desired *unstructured.Unstructured
	Mapping targetclient.Mapping

	// definedHere says that a CustomResourceDefinition of the same plan defines the kind.
	definedHere    bool
	manifestDigest string
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

// Stale tells whether a digest on the ledger was made from another manifest than the item's.
func (i *Item) Stale(applied string) bool { return !madeFrom(applied, i.manifestDigest) }

// Plan is a set of objects in the order in which they are applied.
type Plan struct {
	stages [][]*Item
}

// NewPlan finds out where the target serves each of the objects and sorts them. labels are added to each object. The error
// names all objects of a kind that neither the target nor a CustomResourceDefinition among the objects defines, and all that
// occur twice; asOf is for Client.Mapping.
func NewPlan(
	ctx context.Context, client *targetclient.Client, manifests []object.Manifest, labels map[string]string, asOf time.Time,
) (*Plan, error) {
	defined := map[schema.GroupVersionKind]targetclient.Mapping{}
	for _, m := range manifests {
		addDefined(defined, m.Object)
	}
	plan := &Plan{stages: make([][]*Item, 3)}
	paths := map[object.Key]*field.Path{}
	var errs []error
	for _, m := range manifests {
		gvk := m.Object.GroupVersionKind()
		mapping, definedHere := defined[gvk]
		if !definedHere {
			var err error
			mapping, err = client.Mapping(ctx, gvk, asOf)
			if meta.IsNoMatchError(err) {
				errs = append(errs, unknownKind(m, client.Host))
				continue
			}
			if err != nil {
				return nil, targeterror.Explain(client.Host, err)
			}
		}
		item := newItem(m.Object, mapping, definedHere, labels)
		if first, duplicate := paths[item.Key]; duplicate {
			errs = append(errs, sdk.ConfigurationError(ReasonDuplicate, "%s: %s is already in %s", m.Path, item.Key, first))
			continue
		}
		paths[item.Key] = m.Path
		stage := stageOf(item)
		plan.stages[stage] = append(plan.stages[stage], item)
	}
	return plan, targeterror.Collect(errs)
}

// unknownKind has no code: another deploy item or an operator may define the kind while the job has time.
func unknownKind(m object.Manifest, host string) error {
	gvk := m.Object.GroupVersionKind()
	return &sdk.Error{
		Reason: targeterror.ReasonUnknownKind,
		Err: fmt.Errorf("%s: %s: target cluster %s serves no kind %s in %s, and no CustomResourceDefinition of the deploy item defines it",
			m.Path, object.KeyOf(m.Object), host, gvk.Kind, gvk.GroupVersion()),
	}
}

// ReasonDuplicate is given to the error about an object that is in a plan twice.
const ReasonDuplicate = "DuplicateObject"

func newItem(o *unstructured.Unstructured, mapping targetclient.Mapping, definedHere bool, labels map[string]string) *Item {
	desired := o.DeepCopy()
	switch {
	case !mapping.Namespaced:
		// As the API server does with a namespace where none belongs.
		desired.SetNamespace("")
	case desired.GetNamespace() == "":
		desired.SetNamespace(DefaultNamespace)
	}
	all := desired.GetLabels()
	if all == nil {
		all = map[string]string{}
	}
	for key, value := range labels {
		all[key] = value
	}
	desired.SetLabels(all)
	return &Item{
		Key:            object.KeyOf(desired),
		Desired:        desired,
		Mapping:        mapping,
		definedHere:    definedHere,
		manifestDigest: digest(desired.Object),
	}
}

func stageOf(i *Item) int {
	switch {
	case object.IsCRD(i.Key.Group, i.Key.Kind):
		return 0
	case !i.Mapping.Namespaced:
		return 1
	default:
		return 2
	}
}

// addDefined adds the kinds that a CustomResourceDefinition defines; other objects define none. One that lacks a field is
// left to the API server, which says what is wrong with it.
func addDefined(defined map[schema.GroupVersionKind]targetclient.Mapping, o *unstructured.Unstructured) {
	if gvk := o.GroupVersionKind(); !object.IsCRD(gvk.Group, gvk.Kind) {
		return
	}
	text := func(fields ...string) string {
		value, _, _ := unstructured.NestedString(o.Object, fields...)
		return value
	}
	group, kind, plural := text("spec", "group"), text("spec", "names", "kind"), text("spec", "names", "plural")
	if group == "" || kind == "" || plural == "" {
		return
	}
	versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
	for _, v := range versions {
		version, ok := v.(map[string]any)
		if !ok || version["served"] != true {
			continue
		}
		name, _ := version["name"].(string)
		gv := schema.GroupVersion{Group: group, Version: name}
		defined[gv.WithKind(kind)] = targetclient.Mapping{
			Resource:   gv.WithResource(plural),
			Namespaced: text("spec", "scope") == "Namespaced",
		}
	}
}

// Items returns all objects in the order of the stages.
func (p *Plan) Items() []*Item { return slices.Concat(p.stages...) }

// Keys returns the keys of all objects.
func (p *Plan) Keys() map[object.Key]bool {
	keys := map[object.Key]bool{}
	for _, i := range p.Items() {
		keys[i.Key] = true
	}
	return keys
}

// String says how many objects there are.
func (p *Plan) String() string {
	if n := len(p.Items()); n != 1 {
		return fmt.Sprintf("%d objects", n)
	}
	return "1 object"
}
