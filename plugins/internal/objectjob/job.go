package objectjob

import (
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/job"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
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
	// ReasonTargetWarning is the reason of the event about a warning of the target's API server.
	ReasonTargetWarning = "TargetWarning"
	// ReasonTakenOver is the reason of the event about a takeover from another deploy item or release.
	ReasonTakenOver = "TakenOver"
	// reasonRetained is the reason of the event about fields dropped by the manifest but still on the object.
	reasonRetained = "FieldsRetained"
	// reasonRecreating is the reason of the event about the losses by the recreation of an object.
	reasonRecreating = "Recreating"
	// ReasonLeft is the reason of the event about an object left on the target and no longer managed.
	ReasonLeft = "LeftOnTarget"
)

// Job is one call of a deployer of objects. Its methods are the steps. Each returns a response if the job cannot go
// on to the next step in this call, and nil if it can.
type Job struct {
	*job.Job

	// Client of the deploy item's Target.
	Client *target.Client
	// Lookup returns the clients of other Targets.
	Lookup target.Lookup
	Status *ProviderStatus
	// Owner is the deploy item, with the label of the deployer.
	Owner owner.Owner
	// Began is the start of the call.
	Began time.Time

	// done are the objects gone after their completion, as in their manifests.
	done []*unstructured.Unstructured
	// ready are the objects of a job that must stay, as they were when all were ready.
	ready []watch.Seen
}

// IsDone reports whether the object of an entry of the inventory completed in this job or in the one that it tries
// again, or in an earlier one if only hooks, such as a schedule, asked for this one.
func (j *Job) IsDone(entry managedresource.ManagedResourceStatus) bool {
	item := j.Request.DeployItem
	return entry.DoneIn != "" && (entry.DoneIn == hook.FirstJob(item) || hook.AskedFor(item))
}

// Wait returns the response of an unfinished job, and reports the reason of the wait: prefix and things without
// "waiting for". A change of a seen object wakes the job.
func (j *Job) Wait(step, prefix string, things []string, seen []watch.Seen) *sdk.Response {
	what := prefix + object.Enumerate(things, "; ", job.MaxListed)
	j.Request.Progress(step, "waiting for "+what)
	return j.Job.Wait(what, job.PollAfter(j.Request, time.Now()), seen)
}

// Done returns the response of a finished job.
func (j *Job) Done(exports map[string]any) *sdk.Response {
	j.Status.finish()
	return j.Job.Done(exports, j.ready)
}

// Seen returns the applied objects to watch for changes.
func (j *Job) Seen(applied []apply.Applied) []watch.Seen {
	seen := make([]watch.Seen, 0, len(applied))
	for _, a := range applied {
		seen = append(seen, watch.SeenOf(j.Client, a.Mapping, a.Key, a.Live))
	}
	return seen
}
