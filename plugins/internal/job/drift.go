package job

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxDrifted bounds the objects of a drift that are kept in the provider status, and maxFields the fields of
	// each.
	maxDrifted, maxFields = 20, 20

	reasonRepaired  = "Repaired"
	reasonUnchanged = "Unchanged"
)

// NoteDrift adds what a call found changed of a plan to what earlier calls of the same job found.
func (s *ProviderStatus) NoteDrift(plan *apply.Plan, found []apply.Drift) {
	if len(found) == 0 {
		return
	}
	drift := &managedresource.Drift{JobID: s.req.JobID}
	if s.drift != nil && s.drift.JobID == s.req.JobID {
		drift.Objects = append(drift.Objects, s.drift.Objects...)
	}
	for _, o := range driftedObjects(plan, found) {
		drift.Objects = addDrifted(drift.Objects, o)
	}
	drift.Objects = drift.Objects[:min(len(drift.Objects), maxDrifted)]
	s.drift = drift
}

// TellDrift records an event of what a call has repaired: the condition goes with the next job that finds nothing. What
// belonged to another deploy item is told as that.
func (j *Job) TellDrift(plan *apply.Plan, result apply.Result) {
	found := slices.DeleteFunc(slices.Clone(result.Drift), func(d apply.Drift) bool {
		return slices.ContainsFunc(result.TakenOver, func(t apply.TakenOver) bool { return t.Key == d.Key })
	})
	if len(found) > 0 {
		j.Request.Event(reasonRepaired, describeDrift(driftedObjects(plan, found)))
	}
}

// driftedObjects returns what a call found changed of a plan.
func driftedObjects(plan *apply.Plan, found []apply.Drift) []managedresource.DriftedObject {
	references := map[object.Key]managedresource.ObjectReference{}
	for _, item := range plan.Items() {
		references[item.Key] = item.Reference()
	}
	objects := make([]managedresource.DriftedObject, 0, len(found))
	for _, d := range found {
		objects = append(objects, managedresource.DriftedObject{
			Resource: references[d.Key], Missing: d.Missing, Fields: d.Fields,
		})
	}
	return objects
}

// addDrifted adds an object to those that have drifted. One that others change again and again during a job is there
// once, with all its fields.
func addDrifted(all []managedresource.DriftedObject, o managedresource.DriftedObject) []managedresource.DriftedObject {
	same := func(other managedresource.DriftedObject) bool { return other.Resource == o.Resource }
	i := slices.IndexFunc(all, same)
	if i < 0 {
		i, all = len(all), append(all, managedresource.DriftedObject{Resource: o.Resource})
	}
	fields := slices.Concat(all[i].Fields, o.Fields)
	slices.Sort(fields)
	fields = slices.Compact(fields)
	all[i].Missing = all[i].Missing || o.Missing
	all[i].Fields = fields[:min(len(fields), maxFields)]
	return all
}

// drifted tells whether the job has found anything changed, in this call or an earlier one.
func (s *ProviderStatus) drifted() bool { return s.drift != nil && s.drift.JobID == s.req.JobID }

// conditions are those that say whether objects had changed. Before the job is done nobody knows that nothing has.
func (j *Job) conditions(done bool) []sdk.Condition {
	switch {
	case j.Status.drifted():
		return []sdk.Condition{{
			Type: managedresource.ConditionDrifted, Status: landscaper.ConditionTrue, Reason: reasonRepaired,
			Message: describeDrift(j.Status.drift.Objects),
		}}
	case done && hasDrifted(j.Request.DeployItem):
		return []sdk.Condition{{
			Type: managedresource.ConditionDrifted, Status: landscaper.ConditionFalse, Reason: reasonUnchanged,
			Message: "the last job found all objects as they were applied",
		}}
	default:
		return nil
	}
}

// hasDrifted tells whether an item has the condition, with either status.
func hasDrifted(item *landscaper.DeployItem) bool {
	for _, c := range item.Status.Conditions {
		if c.Type == managedresource.ConditionDrifted {
			return true
		}
	}
	return false
}

func describeDrift(objects []managedresource.DriftedObject) string {
	texts := make([]string, 0, len(objects))
	for _, o := range objects {
		key := object.KeyOfReference(o.Resource)
		if o.Missing {
			texts = append(texts, fmt.Sprintf("%s was missing", key))
			continue
		}
		texts = append(texts, fmt.Sprintf("%s: %s", key, strings.Join(o.Fields, ", ")))
	}
	return "repaired what had changed on the target: " + object.Enumerate(texts, "; ", maxListed)
}
