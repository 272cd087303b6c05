package job

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/prune"
	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// The steps of a job, as users see them in its progress and its errors.
const (
	StepApply     = "Apply"
	StepCleanUp   = "CleanUp"
	StepReadiness = "Readiness"
	StepExport    = "Export"
	StepPatch     = "PatchAfterDeployment"
	StepDelete    = "Delete"
)

// Reasons that are given to errors and events, beside those of the packages that do the work.
const (
	// ReasonUnknownField is given to the warning about a field of the provider configuration that is passed over.
	ReasonUnknownField = "UnknownField"
	// reasonFailed is given to the error about objects that cannot become ready any more by themselves.
	reasonFailed = "ObjectFailed"
	// ReasonTargetWarning is given to the event about what the API server of the target warns of.
	ReasonTargetWarning = "TargetWarning"
	// reasonTakenOver is given to the event about an object that belonged to another deploy item.
	reasonTakenOver = "TakenOver"
	// reasonRetained is given to the event about fields that stay although their manifest has them no more.
	reasonRetained = "FieldsRetained"
	// reasonRecreating is given to the event about what goes with an object that is about to be created anew.
	reasonRecreating = "Recreating"
	// reasonLeft is given to the event about an object that stays on the target and is not managed any more.
	reasonLeft = "LeftOnTarget"
)

// maxListed bounds how many objects are named in a message about what is being waited for.
const maxListed = 5

// Job is one call of a deployer. Its methods are the steps; each returns a response if the job cannot go on to the next
// one in this call, and nil if it can.
type Job struct {
	Request *sdk.Request
	// Client of the deploy item's Target.
	Client *target.Client
	// Lookup returns the clients of other Targets.
	Lookup  target.Lookup
	Watches *watch.Set
	Status  *ProviderStatus
	// Owner is the deploy item, with the label of the deployer.
	Owner owner.Owner
	// Began is when the call began.
	Began time.Time

	// done are the objects that are done and gone, as their manifests have them.
	done []*unstructured.Unstructured
}

// First tells whether this is the first call of the item's job: what is told once is told then.
func (j *Job) First() bool {
	phase := j.Request.DeployItem.Status.Phase
	return phase == landscaper.DeployItemPhaseInit || phase == landscaper.DeployItemPhaseInitDelete
}

// WarnOf tells which fields of the provider configuration were passed over.
func (j *Job) WarnOf(unknown []string) {
	if len(unknown) > 0 && j.First() {
		j.Request.Warning(ReasonUnknownField, "spec.config: passed over: "+object.Enumerate(unknown, "; ", maxListed))
	}
}

// Apply notes the objects of the plan, saves the note, applies them and returns what became of them.
func (j *Job) Apply(ctx context.Context, plan *apply.Plan) ([]apply.Applied, *sdk.Response, error) {
	inventory := j.Status.Inventory
	// What was known before decides whether an object is looked for or created at once.
	before := NewInventory(inventory.Entries())
	due := 0 // objects that are new or were changed
	for _, item := range plan.Items() {
		if j.Status.IsSettled(item.Key) {
			continue
		}
		inventory.Expect(item.Entry(), item.Stale)
		if e, _ := inventory.Get(item.Key); e.Applied == "" {
			due++
		}
	}
	if unsaved := j.Status.Unsaved(); unsaved != nil { // nothing is created that cannot be noted afterwards
		if err := j.Request.CheckProviderStatus(unsaved, inventory.growth()); err != nil {
			return nil, nil, During(StepApply, err)
		}
	}
	if err := j.Status.Save(ctx); err != nil {
		return nil, nil, err
	}
	if due > 0 { // else the user is to see what the job waits for, and not that it looks again
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
	for _, key := range result.Unwritten { // what was applied last counts again, should the manifest be changed back
		if e, known := before.Get(key); known {
			inventory.Applied(e.Resource, e.Applied)
		}
	}
	j.tellUnrecorded(ctx, plan, before, result.Applied)
	for _, skipped := range result.Skipped {
		if entry, managed := before.Get(skipped.Key); managed && entry.Resource.UID != "" {
			j.Request.Event(reasonLeft, fmt.Sprintf("%s stays on the target: %s", skipped.Key, skipped.Why))
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
		j.Request.Warning(reasonTakenOver,
			fmt.Sprintf("%s belonged to %s; it belongs to this one now", t.Key, t.From))
	}
	if err != nil {
		return nil, j.End(), During(StepApply, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.Wait(StepApply, "", result.Waiting, j.Seen(result.Applied)), nil
	}
	return result.Applied, nil, nil
}

// tellRetained tells which fields stay although their manifests have them no more.
func (j *Job) tellRetained(all []apply.Retained) {
	for _, r := range all {
		if len(r.Fields) > 0 {
			j.Request.Event(reasonRetained, fmt.Sprintf("%s keeps fields that its manifest has no more, "+
				"since they cannot be removed: %s", r.Key, object.Enumerate(r.Fields, ", ", maxListed)))
		}
		if len(r.Shared) > 0 {
			remedy := "; they are too many to be remembered: remove them with kubectl"
			if r.Path != nil {
				remedy = fmt.Sprintf("; set force: true at %s to remove them", r.Path)
			}
			j.Request.Warning(reasonRetained, fmt.Sprintf("%s keeps fields that its manifest has no more, "+
				"since other field managers have set them, too: %s%s", r.Key, object.Enumerate(r.Shared, ", ", maxListed), remedy))
		}
	}
}

// NoteApplied puts in the inventory what was applied, with uids, hashes, and the job for which it is done. The job
// leaves it as it is from then on.
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
		case !readiness.NeedNotStay(applied.Live):
			j.Status.Inventory.Done(applied.Key, "")
		case !j.IsDone(before) || before.Resource.UID != reference.UID:
			j.Status.Inventory.Done(applied.Key, j.Request.JobID)
		}
	}
}

// IsDone tells whether the object of an entry of the inventory is done for this job: it was in this one, or in another
// one before it and nobody but hooks, such as a schedule, has asked for this one.
func (j *Job) IsDone(entry managedresource.ManagedResourceStatus) bool {
	return entry.DoneIn != "" && (entry.DoneIn == j.Request.JobID || hook.AskedFor(j.Request.DeployItem))
}

// NoteDone notes what is done and gone, so that it counts as ready.
func (j *Job) NoteDone(items []*apply.Item) {
	for _, item := range items {
		j.Status.settled.add(item.Key)
		j.done = append(j.done, item.Desired)
	}
}

// CleanUp deletes the objects that are managed but not in the plan any more, as the deletion says. What the job itself
// has applied stays, also if a later call renders other objects.
func (j *Job) CleanUp(
	ctx context.Context, plan *apply.Plan, applied []apply.Applied, d prune.Deletion,
) (*sdk.Response, error) {
	wanted := j.Status.withSettled(plan.Keys())
	d.Entries, d.Spare = j.Status.Inventory.Without(wanted), wanted
	if len(d.Entries) == 0 {
		return nil, nil //nolint:nilnil // see Job
	}
	d.Applied = make(map[types.UID]bool, len(applied))
	for _, a := range applied {
		d.Applied[a.Live.GetUID()] = true
		if owners := a.Live.GetOwnerReferences(); len(owners) > 0 {
			d.Owned = append(d.Owned, apply.Owned{Key: a.Key, Owners: owners})
		}
	}
	return j.Remove(ctx, StepCleanUp, d)
}

// Unblock deals with the error of Apply, which it returns: if a webhook does not answer, the configurations of webhooks
// that the item has dropped go first, or they would hold up the update that is to remove them.
func (j *Job) Unblock(ctx context.Context, plan *apply.Plan, d prune.Deletion, err error) (*sdk.Response, error) {
	if !prune.IsBlocked(err) {
		return j.End(), err
	}
	wanted := j.Status.withSettled(plan.Keys())
	d.Entries = slices.DeleteFunc(j.Status.Inventory.Without(wanted), func(e managedresource.ManagedResourceStatus) bool {
		key := object.KeyOfReference(e.Resource)
		return !object.Intercepts(key.Group, key.Kind)
	})
	if len(d.Entries) == 0 { // the webhook is not one that the item has dropped
		return j.End(), err
	}
	d.Spare = wanted
	if _, failed := j.Remove(ctx, StepCleanUp, d); failed != nil {
		err = errors.Join(err, failed)
	}
	return j.End(), err
}

// Remove deletes managed objects until they are gone.
func (j *Job) Remove(ctx context.Context, step string, d prune.Deletion) (*sdk.Response, error) {
	j.Request.Progress(step, fmt.Sprintf("deleting objects: %d", len(d.Entries)))
	result, err := prune.Run(ctx, j.Client, j.Deletion(d))
	for _, key := range result.Gone {
		j.Status.Inventory.Gone(key)
	}
	for _, left := range result.Left {
		j.Status.Inventory.Gone(left.Key)
		j.Request.Event(reasonLeft, fmt.Sprintf("%s stays on the target: %s", left.Key, left.Why))
	}
	if err != nil {
		return j.End(), During(step, err)
	}
	if len(result.Waiting) > 0 {
		return j.Wait(step, "the deletion of ", result.Waiting, result.Seen), nil
	}
	return nil, nil //nolint:nilnil // see Job
}

// Deletion adds to a deletion what goes for all of the job's.
func (j *Job) Deletion(d prune.Deletion) prune.Deletion {
	d.Owner, d.Lookup, d.AsOf = j.Owner, j.Lookup, j.Began
	return d
}

// CheckReadiness judges the objects as they were just applied or read.
func (j *Job) CheckReadiness(
	ctx context.Context, checks readiness.Checks, applied []apply.Applied,
) (*sdk.Response, error) {
	objects := make([]readiness.Object, 0, len(applied))
	for _, a := range applied {
		objects = append(objects, a.ToJudge())
	}
	verdict, err := checks.Run(ctx, objects, j.done, j.Lookup, j.Began)
	switch {
	case len(verdict.Failed) > 0:
		j.noteUndone(applied)
		// An object that has given up does not recover by itself: to wait for it until the time of the job is up helps
		// nobody.
		return j.End(), During(StepReadiness, &sdk.Error{
			Codes:  []landscaper.ErrorCode{landscaper.ErrorNoRetry},
			Reason: reasonFailed,
			Err:    errors.New(object.Enumerate(verdict.Failed, "; ", maxListed)),
		})
	case err != nil:
		return j.End(), During(StepReadiness, err)
	case len(verdict.Waiting) > 0:
		return j.Wait(StepReadiness, "", verdict.Waiting, append(j.Seen(applied), verdict.Seen...)), nil
	default:
		return nil, nil //nolint:nilnil // see Job
	}
}

// noteUndone strikes off the inventory that objects are done which have failed or may still do so: the next job is to
// try again, whoever asks for it.
func (j *Job) noteUndone(applied []apply.Applied) {
	for _, a := range applied {
		if !readiness.IsComplete(a.Live) {
			j.Status.Inventory.Done(a.Key, "")
		}
	}
}

// ReadExports reads the values to export.
func (j *Job) ReadExports(
	ctx context.Context, values []export.Value, applied []apply.Applied,
) (map[string]any, *sdk.Response, error) {
	if len(values) == 0 {
		return nil, nil, nil
	}
	j.Request.Progress(StepExport, fmt.Sprintf("reading values to export: %d", len(values)))
	result, err := export.Read(ctx, j.Client, values, liveOf(applied), j.Lookup, j.Began)
	if err != nil {
		return nil, j.End(), During(StepExport, err)
	}
	if len(result.Waiting) > 0 {
		return nil, j.Wait(StepExport, "", result.Waiting, append(j.Seen(applied), result.Seen...)), nil
	}
	return result.Exports, nil, nil
}

// Patch makes the changes that are for objects that are ready and exported from.
func (j *Job) Patch(ctx context.Context, applied []apply.Applied) (*sdk.Response, error) {
	if unpatched := apply.Unpatched(applied); len(unpatched) > 0 {
		j.NoteApplied(unpatched)
		for _, a := range unpatched { // after a crash in between they have to be compared
			delete(j.Status.settled.objects, a.Key)
		}
		if err := j.Status.Save(ctx); err != nil {
			return j.End(), err
		}
	}
	patched, err := apply.Patch(ctx, j.Client, applied)
	j.NoteApplied(patched)
	if err != nil {
		return j.End(), During(StepPatch, err)
	}
	return nil, nil //nolint:nilnil // see Job
}

// Wait returns the response of a job that goes on, and tells what it waits for: prefix and things without "waiting
// for", which the host says itself. A change of what was seen wakes the job.
func (j *Job) Wait(step, prefix string, things []string, seen []watch.Seen) *sdk.Response {
	what := prefix + object.Enumerate(things, "; ", maxListed)
	j.Request.Progress(step, "waiting for "+what)
	j.Watches.Follow(nameOf(j.Request.DeployItem), seen)
	res := sdk.WaitFor(what, pollAfter(j.Request, time.Now()))
	res.ProviderStatus, res.Conditions = j.Status.Unsaved(), j.conditions(false)
	return res
}

// End returns what is saved beside an error.
func (j *Job) End() *sdk.Response {
	return &sdk.Response{ProviderStatus: j.Status.Unsaved(), Conditions: j.conditions(false)}
}

// Done returns the response of a job that is done.
func (j *Job) Done(exports map[string]any) *sdk.Response {
	j.Watches.Follow(nameOf(j.Request.DeployItem), nil)
	conditions := j.conditions(true)
	if !j.Status.drifted() {
		j.Status.drift = nil
	}
	j.Status.settled = settled{}
	j.Status.installation = cmp.Or(j.Request.Installation, j.Status.installation)
	return &sdk.Response{ProviderStatus: j.Status.Unsaved(), Conditions: conditions, Exports: exports}
}

// Seen returns what to watch for changes of applied objects.
func (j *Job) Seen(applied []apply.Applied) []watch.Seen {
	seen := make([]watch.Seen, 0, len(applied))
	for _, a := range applied {
		seen = append(seen, watch.SeenOf(j.Client, a.Mapping, a.Key, a.Live))
	}
	return seen
}

func liveOf(applied []apply.Applied) []*unstructured.Unstructured {
	live := make([]*unstructured.Unstructured, 0, len(applied))
	for _, a := range applied {
		live = append(live, a.Live)
	}
	return live
}

func nameOf(item *landscaper.DeployItem) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}

// pollAfter grows with the age of the job: most things that are waited for come within seconds or take minutes. Changes
// of what was seen wake the job earlier; polls are for what cannot be watched.
func pollAfter(req *sdk.Request, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 15 * time.Second
	times := req.DeployItem.Status.TransitionTimes
	if times == nil || times.InitTime.IsZero() {
		return shortest
	}
	age := now.Sub(times.InitTime.Time)
	return min(max(age/4, shortest), longest)
}

// During adds the step of the job to an error, whose reason and codes stay.
func During(step string, err error) error {
	out := &sdk.Error{Operation: step, Reason: target.ReasonTarget, Err: err}
	var known *sdk.Error
	if errors.As(err, &known) && known.Reason != "" {
		out.Reason = known.Reason
	}
	return out
}
