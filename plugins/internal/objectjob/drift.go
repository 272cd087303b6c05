package objectjob

import (
	"fmt"
	"slices"
	"strings"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

const (
	// maxDrifted bounds the objects of a drift in the provider status, and maxFields the fields of each.
	maxDrifted, maxFields = 20, 20

	reasonRepaired  = "Repaired"
	reasonUnchanged = "Unchanged"
	// reasonRefused is the reason for objects whose repair the target refuses.
	reasonRefused = "RepairRefused"
)

// NoteDrift adds the changed objects of a plan, as a call found them, to those of earlier calls of the job.
func (s *ProviderStatus) NoteDrift(plan *apply.Plan, found []desired.Drift) {
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

// splitDrift divides objects into repaired and refused ones.
func splitDrift(objects []managedresource.DriftedObject) (repaired, refused []managedresource.DriftedObject) {
	for _, o := range objects {
		if o.Refused != "" {
			refused = append(refused, o)
			continue
		}
		repaired = append(repaired, o)
	}
	return repaired, refused
}

// driftedObjects returns the changed objects of a plan, as a call found them.
func driftedObjects(plan *apply.Plan, found []desired.Drift) []managedresource.DriftedObject {
	references := map[object.Key]managedresource.ObjectReference{}
	for _, item := range plan.Items() {
		references[item.Key] = item.Reference()
	}
	objects := make([]managedresource.DriftedObject, 0, len(found))
	for _, d := range found {
		objects = append(objects, managedresource.DriftedObject{
			Resource: references[d.Key], Missing: d.Missing, Fields: d.Fields, Refused: d.Refused,
		})
	}
	return objects
}

// addDrifted adds an object to those with drift. An object with repeated changes by others during a job is there
// once, with all its fields.
func addDrifted(
	all []managedresource.DriftedObject, o managedresource.DriftedObject,
) []managedresource.DriftedObject {
	same := func(other managedresource.DriftedObject) bool { return other.Resource == o.Resource }
	i := slices.IndexFunc(all, same)
	if i < 0 {
		i, all = len(all), append(all, managedresource.DriftedObject{Resource: o.Resource})
	}
	fields := slices.Concat(all[i].Fields, o.Fields)
	slices.Sort(fields)
	fields = slices.Compact(fields)
	all[i].Missing, all[i].Refused = all[i].Missing || o.Missing, o.Refused
	all[i].Fields = fields[:min(len(fields), maxFields)]
	return all
}

// drifted reports whether the job has found a change, in this call or an earlier one.
func (s *ProviderStatus) drifted() bool { return s.drift != nil && s.drift.JobID == s.req.JobID }

// Conditions returns the condition about drift, if any. Only a finished job proves that there was none.
func (s *ProviderStatus) Conditions(finished bool) []sdk.Condition {
	switch {
	case s.drifted():
		repaired, refused := splitDrift(s.drift.Objects)
		reason := reasonRepaired
		if len(refused) > 0 {
			reason = reasonRefused
		}
		return []sdk.Condition{{
			Type: managedresource.ConditionDrifted, Status: landscaper.ConditionTrue, Reason: reason,
			Message: describeDrift(repaired, refused),
		}}
	case finished && hasDrifted(s.req.DeployItem):
		return []sdk.Condition{{
			Type: managedresource.ConditionDrifted, Status: landscaper.ConditionFalse, Reason: reasonUnchanged,
			Message: "the last job found all objects as they were applied",
		}}
	default:
		return nil
	}
}

// hasDrifted reports whether an item has the condition, with either status.
func hasDrifted(item *landscaper.DeployItem) bool {
	for _, c := range item.Status.Conditions {
		if c.Type == managedresource.ConditionDrifted {
			return true
		}
	}
	return false
}

func describeDrift(repaired, refused []managedresource.DriftedObject) string {
	var parts []string
	if len(repaired) > 0 {
		parts = append(parts, "repaired changes on the target: "+describeObjects(repaired))
	}
	if len(refused) > 0 {
		parts = append(parts, "the target refuses the repair of these changes: "+describeObjects(refused))
	}
	return strings.Join(parts, ". ")
}

func describeObjects(objects []managedresource.DriftedObject) string {
	texts := make([]string, 0, len(objects))
	for _, o := range objects {
		key := object.KeyOfReference(o.Resource)
		text := fmt.Sprintf("%s: %s", key, strings.Join(o.Fields, ", "))
		if o.Missing {
			text = fmt.Sprintf("%s was missing", key)
		}
		if o.Refused != "" {
			text += " (" + o.Refused + ")"
		}
		texts = append(texts, text)
	}
	return object.Enumerate(texts, "; ", job.MaxListed)
}
