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
	"github.com/pergola-deploy/pergola/plugins/internal/completion"
	"github.com/pergola-deploy/pergola/plugins/internal/desired"
	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
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

// Reasons of errors and events, beside those of the packages of the steps.
const (
	// ReasonUnknownField is the reason of the warning about an ignored field of the provider configuration.
	ReasonUnknownField = "UnknownField"
	// reasonFailed is the reason of the error about objects unable to become ready by themselves.
	reasonFailed = "ObjectFailed"
	// ReasonTargetWarning is the reason of the event about a warning of the target's API server.
	ReasonTargetWarning = "TargetWarning"
	// reasonTakenOver is the reason of the event about an object of another deploy item, taken over by this one.
	reasonTakenOver = "TakenOver"
	// reasonRetained is the reason of the event about fields dropped by the manifest but still on the object.
	reasonRetained = "FieldsRetained"
	// reasonRecreating is the reason of the event about the losses by the recreation of an object.
	reasonRecreating = "Recreating"
	// reasonLeft is the reason of the event about an object left on the target and no longer managed.
	reasonLeft = "LeftOnTarget"
)

// maxListed bounds the number of objects in the message of a waiting job.
const maxListed = 5

// Job is one call of a deployer. Its methods are the steps. Each returns a response if the job cannot go on to the
// next step in this call, and nil if it can.
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
	// Began is the start of the call.
	Began time.Time

	// done are the objects gone after their completion, as in their manifests.
	done []*unstructured.Unstructured
}

// First reports whether this is the first call of the item's job. Messages for once in a job belong to it.
func (j *Job) First() bool {
	phase := j.Request.DeployItem.Status.Phase
	return phase == landscaper.DeployItemPhaseInit || phase == landscaper.DeployItemPhaseInitDelete
}

// WarnOf records a warning about ignored fields of the provider configuration.
func (j *Job) WarnOf(unknown []string) {
	if len(unknown) > 0 && j.First() {
		j.Request.Warning(ReasonUnknownField, "spec.config: passed over: "+object.Enumerate(unknown, "; ", maxListed))
	}
}

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
			return nil, nil, During(StepApply, err)
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

// tellRetained records events about fields dropped by their manifests but still on the objects.
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
			j.Status.Inventory.Done(applied.Key, j.Request.JobID)
		}
	}
}

// IsDone reports whether the object of an entry of the inventory counts as completed in this job: it completed in
// this job, or in an earlier one if only hooks, such as a schedule, asked for this one.
func (j *Job) IsDone(entry managedresource.ManagedResourceStatus) bool {
	return entry.DoneIn != "" && (entry.DoneIn == j.Request.JobID || hook.AskedFor(j.Request.DeployItem))
}

// NoteDone notes objects gone after their completion, so that they count as ready.
func (j *Job) NoteDone(items []*desired.Object) {
	for _, item := range items {
		j.Status.settled.add(item.Key)
		j.done = append(j.done, item.Desired)
	}
}

// CleanUp deletes the managed objects no longer in the plan, as the deletion says. Objects applied by this job stay,
// even if a later call renders others.
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
			d.Owned = append(d.Owned, objects.Owned{Key: a.Key, Owners: owners})
		}
	}
	return j.Remove(ctx, StepCleanUp, d)
}

// Unblock handles the error of Apply and returns it. If a webhook does not answer, it first deletes the webhook
// configurations dropped by the item, because they would hold up the update to remove them.
func (j *Job) Unblock(ctx context.Context, plan *apply.Plan, d prune.Deletion, err error) (*sdk.Response, error) {
	if !prune.IsBlocked(err) {
		return j.End(), err
	}
	wanted := j.Status.withSettled(plan.Keys())
	d.Entries = slices.DeleteFunc(j.Status.Inventory.Without(wanted), func(e managedresource.ManagedResourceStatus) bool {
		key := object.KeyOfReference(e.Resource)
		return !object.Intercepts(key.Group, key.Kind)
	})
	if len(d.Entries) == 0 { // the item has not dropped the webhook
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
	gone := result.Gone
	if result.Unfinished {
		gone = gone[1:] // an entry is left for the next call
	}
	for _, key := range gone {
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

// Deletion completes a deletion with the fields common to all deletions of the job.
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
		// A failed object does not recover by itself: it is useless to wait for it until the timeout of the job.
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

// noteUndone removes the completion of all objects still able to fail, and of the failed ones: the next job tries
// again, even if a hook asked for it.
func (j *Job) noteUndone(applied []apply.Applied) {
	for _, a := range applied {
		if !completion.IsComplete(a.Live) {
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
		return j.End(), During(StepPatch, err)
	}
	return nil, nil //nolint:nilnil // see Job
}

// Wait returns the response of an unfinished job, and reports the reason of the wait: prefix and things without
// "waiting for", because the host adds that. A change of a seen object wakes the job.
func (j *Job) Wait(step, prefix string, things []string, seen []watch.Seen) *sdk.Response {
	what := prefix + object.Enumerate(things, "; ", maxListed)
	j.Request.Progress(step, "waiting for "+what)
	j.Watches.Follow(nameOf(j.Request.DeployItem), seen)
	res := sdk.WaitFor(what, pollAfter(j.Request, time.Now()))
	res.ProviderStatus, res.Conditions = j.Status.Unsaved(), j.conditions(false)
	return res
}

// End returns the response to go with an error.
func (j *Job) End() *sdk.Response {
	return &sdk.Response{ProviderStatus: j.Status.Unsaved(), Conditions: j.conditions(false)}
}

// Done returns the response of a finished job.
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

// Seen returns the applied objects to watch for changes.
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

// pollAfter grows with the age of the job: most waits last either seconds or minutes. Changes of seen objects wake
// the job earlier; polls are for unwatched ones.
func pollAfter(req *sdk.Request, now time.Time) time.Duration {
	const shortest, longest = 250 * time.Millisecond, 15 * time.Second
	times := req.DeployItem.Status.TransitionTimes
	if times == nil || times.InitTime.IsZero() {
		return shortest
	}
	age := now.Sub(times.InitTime.Time)
	return min(max(age/4, shortest), longest)
}

// During adds the step of the job to an error. Its reason and codes stay.
func During(step string, err error) error {
	out := &sdk.Error{Operation: step, Reason: target.ReasonTarget, Err: err}
	var known *sdk.Error
	if errors.As(err, &known) && known.Reason != "" {
		out.Reason = known.Reason
	}
	return out
}
