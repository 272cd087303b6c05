package apply

import (
	"cmp"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
)

// Applied is an object in the state of its manifest, or kept from a change by its policy.
type Applied struct {
	*desired.Object
	// Live is the object as the API server returned it last.
	Live *unstructured.Unstructured
	// LastAppliedHash is for the inventory.
	LastAppliedHash string
	// Shared are the fields dropped from the manifest and set by other field managers, too, for the inventory.
	Shared string
	// Existed: Run has found the object, and it was not the deploy item's.
	Existed bool
	// Recognized: Run has found the object with the label of the deploy item.
	Recognized bool
	// Settled: the job has applied it in an earlier call; see Plan.Settled.
	Settled bool
}

// ToJudge returns the input of package readiness.
func (a Applied) ToJudge() readiness.Object {
	return readiness.Object{Live: a.Live, Wanted: []map[string]any{a.Desired.Object, a.PatchAfterDeployment}}
}

// Skipped is an unmanaged object. The inventory drops it.
type Skipped struct {
	Key object.Key
	// Why is for the user.
	Why string
}

// TakenOver is a former object of another deploy item.
type TakenOver struct {
	Key object.Key
	// From names the other deploy item, for the user.
	From string
}

// Retained is an object with fields dropped from its manifest.
type Retained struct {
	Key object.Key
	// Fields cannot be removed.
	Fields []string
	// Shared are fields set by other managers, too, with the managers.
	Shared []string
	// Path is the path of the object's settings, as in Manifest, where Force removes the shared fields; nil if they are
	// too many for the inventory.
	Path *field.Path
}

// Warning is a warning of the API server, such as about a dropped field.
type Warning struct {
	Key  object.Key
	Text string
}

// Result is the result of a plan. Everything in it has happened, also if other objects failed.
type Result struct {
	Applied []Applied
	Skipped []Skipped
	// Done are the completed objects, now gone.
	Done []*desired.Object
	// Waiting has the reasons for an incomplete plan; call again later. Empty if it is complete or failed.
	Waiting []string
	// Drift are the objects changed by others and repaired, or not if the target refuses it.
	Drift []desired.Drift
	// TakenOver are the objects of other deploy items until now.
	TakenOver []TakenOver
	// Retained are the objects with fields dropped from their manifests.
	Retained []Retained
	// Unwritten are the objects left unchanged by a refused write.
	Unwritten []object.Key
	// Warnings are those of the API server, also about failed objects.
	Warnings []Warning
}

// add adds the outcome of an object; its error is left to the caller.
func (r *Result) add(i *desired.Object, o outcome) {
	i = cmp.Or(o.object, i)
	switch o.action {
	case desired.ActionDone:
		r.Done = append(r.Done, i)
	case desired.ActionSkip:
		r.Skipped = append(r.Skipped, Skipped{Key: i.Key, Why: o.why})
	case desired.ActionWait:
		r.Waiting = append(r.Waiting, o.why)
	default:
		r.Applied = append(r.Applied, Applied{
			Object: i, Live: o.live, LastAppliedHash: o.hash, Existed: o.existed(i),
			Recognized: o.recognized(i), Settled: o.action == desired.ActionSettled, Shared: o.shared,
		})
	}
	if o.drift != nil {
		r.Drift = append(r.Drift, *o.drift)
	}
	if len(o.retained)+len(o.sharers) > 0 {
		slices.Sort(o.retained)
		retained := Retained{Key: i.Key, Fields: slices.Compact(o.retained), Shared: o.sharers}
		if o.shared != "" {
			retained.Path = i.Settings
		}
		r.Retained = append(r.Retained, retained)
	}
	if o.takenFrom != "" {
		r.TakenOver = append(r.TakenOver, TakenOver{Key: i.Key, From: o.takenFrom})
	}
}

// await adds the condition missing for the use of an applied object; nil needs none.
func (r *Result) await(live *unstructured.Unstructured) error {
	if live == nil {
		return nil
	}
	missing, err := established(live)
	if missing != "" {
		r.Waiting = append(r.Waiting, missing)
	}
	return err
}
