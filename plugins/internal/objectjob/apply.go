package objectjob

import (
	"context"
	"fmt"
	"slices"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// Apply notes the objects of the plan, saves the note, applies them and returns the results.
func (j *Job) Apply(ctx context.Context, plan *apply.Plan) ([]apply.Applied, *sdk.Response, error) {
	inventory := j.Status.Inventory
	// The inventory before decides between a look for an object and its immediate creation.
	before := NewInventory(inventory.Entries())
	due := 0 // new or changed objects
	for _, item := range plan.Items() {
		if j.Status.IsSettled(item.Key) {
			continue
		}
		inventory.Expect(item.Entry(), item.Stale)
		if e, _ := inventory.Get(item.Key); e.Applied == "" {
			due++
		}
	}
	if unsaved := j.Status.Unsaved(); unsaved != nil { // no object is created without room to note it
		if err := j.Request.CheckProviderStatus(unsaved, inventory.growth()); err != nil {
			return nil, nil, job.During(StepApply, err)
		}
	}
	if err := j.Status.Save(ctx); err != nil {
		return nil, nil, err
	}
	if due > 0 { // else the user is to see the reason of the wait, and not another look
		j.Request.Progress(StepApply, fmt.Sprintf("applying objects: %d of %d", due, len(plan.Items())))
	}
	plan.Done, plan.Settled = j.IsDone, j.Status.IsSettled
	plan.Recreating = func(key object.Key, lost string) {
		j.Request.Warning(reasonRecreating, fmt.Sprintf("%s is deleted and created anew; with it go %s", key, lost))
	}
	plan.Held = j.held(ctx, plan)
	result, err := apply.Run(ctx, j.Client, plan, before.Get)
	j.NoteApplied(result.Applied)
	j.NoteDone(result.Done)
	for _, key := range result.Unwritten { // the last applied hash counts again, should the manifest be changed back
		if e, known := before.Get(key); known {
			inventory.Applied(e.Resource, e.Applied)
		}
	}
	j.tellUnrecorded(ctx, plan, before, result.Applied)
	for _, skipped := range result.Skipped {
		if entry, managed := before.Get(skipped.Key); managed && entry.Resource.UID != "" {
			j.Request.Event(ReasonLeft, fmt.Sprintf("%s stays on the target: %s", skipped.Key, skipped.Why))
		}
		inventory.Gone(skipped.Key)
	}
	j.Status.NoteDrift(plan, result.Drift)
	j.TellDrift(plan, result)
	j.tellRetained(result.Retained)
	for _, w := range result.Warnings {
		j.Request.Warning(ReasonTargetWarning, fmt.Sprintf("%s: %s", w.Key, w.Text))
	}
	for _, t := range result.TakenOver {
		j.Request.Warning(ReasonTakenOver,
			fmt.Sprintf("%s belonged to %s; it belongs to this one now", t.Key, t.From))
	}
	if err != nil {
		return nil, j.End(), job.During(StepApply, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.Wait(StepApply, "", result.Waiting, j.Seen(result.Applied)), nil
	}
	return result.Applied, nil, nil
}

// tellRetained records events about fields dropped by their manifests but still on the objects.
func (j *Job) tellRetained(all []apply.Retained) {
	for _, r := range all {
		if len(r.Fields) > 0 {
			j.Request.Event(reasonRetained, fmt.Sprintf("%s keeps fields dropped by its manifest, "+
				"because they cannot be removed: %s", r.Key, object.Enumerate(r.Fields, ", ", job.MaxListed)))
		}
		if len(r.Shared) > 0 {
			remedy := "; they are too many to be remembered: remove them with kubectl"
			if r.Path != nil {
				remedy = fmt.Sprintf("; set force: true at %s to remove them", r.Path)
			}
			j.Request.Warning(reasonRetained, fmt.Sprintf("%s keeps fields dropped by its manifest, "+
				"because other field managers have set them, too: %s%s",
				r.Key, object.Enumerate(r.Shared, ", ", job.MaxListed), remedy))
		}
	}
}

// NoteApplied adds applied objects to the inventory, with uids, hashes, and the job of their completion. The job
// leaves them alone from then on.
func (j *Job) NoteApplied(all []apply.Applied) {
	for _, applied := range all {
		before, _ := j.Status.Inventory.Get(applied.Key)
		reference := applied.Reference()
		reference.UID = applied.Live.GetUID()
		j.Status.Inventory.Applied(reference, applied.LastAppliedHash)
		j.Status.Inventory.Shared(applied.Key, applied.Shared)
		j.Status.settled.add(applied.Key)
		if applied.Existed && before.Resource.UID == "" && object.IsCRD(applied.Key.Group, applied.Key.Kind) {
			j.Status.Inventory.Existed(applied.Key)
		}
		switch {
		case !completion.NeedNotStay(applied.Live):
			j.Status.Inventory.Done(applied.Key, "")
		case !j.IsDone(before) || before.Resource.UID != reference.UID:
			j.Status.Inventory.Done(applied.Key, hook.FirstJob(j.Request.DeployItem))
		}
	}
}

// TellDrift records an event about the repairs of a call, and one about the refused ones: the condition goes with the
// next job without drift. Objects taken over from another deploy item have their own event.
func (j *Job) TellDrift(plan *apply.Plan, result apply.Result) {
	found := slices.DeleteFunc(slices.Clone(result.Drift), func(d desired.Drift) bool {
		return slices.ContainsFunc(result.TakenOver, func(t apply.TakenOver) bool { return t.Key == d.Key })
	})
	if len(found) == 0 {
		return
	}
	repaired, refused := splitDrift(driftedObjects(plan, found))
	if len(repaired) > 0 {
		j.Request.Event(reasonRepaired, describeDrift(repaired, nil))
	}
	if len(refused) > 0 {
		j.Request.Warning(reasonRefused, describeDrift(nil, refused))
	}
}

// NoteDone notes objects gone after their completion, so that they count as ready.
func (j *Job) NoteDone(items []*desired.Object) {
	for _, item := range items {
		j.Status.settled.add(item.Key)
		j.done = append(j.done, item.Desired)
	}
}

// Patch makes the changes meant for the time after readiness and export.
func (j *Job) Patch(ctx context.Context, applied []apply.Applied) (*sdk.Response, error) {
	if unpatched := apply.Unpatched(applied); len(unpatched) > 0 {
		j.NoteApplied(unpatched)
		for _, a := range unpatched { // after a crash in between they must be compared
			delete(j.Status.settled.objects, a.Key)
		}
		if err := j.Status.Save(ctx); err != nil {
			return j.End(), err
		}
	}
	patched, err := apply.Patch(ctx, j.Client, applied)
	j.NoteApplied(patched)
	if err != nil {
		return j.End(), job.During(StepPatch, err)
	}
	return nil, nil //nolint:nilnil // see Job
}
