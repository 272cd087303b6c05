package apply

import (
	"cmp"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// leftovers are the fields of an object dropped from its manifest.
type leftovers struct {
	// retained are those impossible to remove.
	retained []string
	// shared are those set by other managers, too, for the inventory; sharers has them with the managers, for messages.
	shared  string
	sharers []string
}

// outcome is the action for an object and, later on, its result.
type outcome struct {
	action desired.Action
	// object is the object with the fields of other clients as found on the target; nil if there are none.
	object *desired.Object
	// why is the reason for skip and wait; for recreate it names the losses.
	why string
	// before is the object as found; nil if there was none.
	before *unstructured.Unstructured
	// live is the object as it is now, with its hash; for create, write, leave and settled.
	live *unstructured.Unstructured
	hash string
	// drift has the changes by others.
	drift *desired.Drift
	// takenFrom is the former deploy item of the object.
	takenFrom string
	// adopted: it existed, and belonged to no deploy item.
	adopted bool
	leftovers
	// warnings are those of the API server.
	warnings []Warning
	// unwritten: the target has refused the write, and the object is unchanged.
	unwritten bool
	err       error
}

// existed reports whether an object was there before the deploy item applied it. It is false without an owner: of
// objects written by others, such as Helm, it is unknown.
func (o outcome) existed(i *desired.Object) bool {
	found := cmp.Or(o.before, o.live)
	return o.action != desired.ActionCreate && !i.Owner.IsZero() && i.Relation(found) != owner.Ours
}

// recognized reports whether an object was there with the label of the deploy item. Landscaper's label does not
// count: it has no namespace.
func (o outcome) recognized(i *desired.Object) bool {
	found := cmp.Or(o.before, o.live)
	return o.action != desired.ActionCreate && i.Relation(found) == owner.Ours && found.GetLabels()[owner.Label] != ""
}

// outcomeOf returns a decision as the outcome for an object as it was found.
func outcomeOf(d desired.Decision, live *unstructured.Unstructured) outcome {
	o := outcome{action: d.Action, why: d.Why, hash: d.Hash, before: live, err: d.Err}
	if d.Action == desired.ActionLeave || d.Action == desired.ActionSettled {
		o.live = live
	}
	return o
}
