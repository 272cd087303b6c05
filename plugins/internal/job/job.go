package job

import (
	"errors"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ReasonUnknownField is the reason of the warning about an ignored field of the provider configuration.
const ReasonUnknownField = "UnknownField"

// MaxListed bounds the number of objects and fields in a message.
const MaxListed = 5

// Record is the provider status of a deploy item, as a deployer keeps it during a call.
type Record interface {
	// Unsaved returns the provider status for a response; nil for one without a change.
	Unsaved() any
	// Conditions returns the conditions for a response. finished is true in the last call of a job.
	Conditions(finished bool) []sdk.Condition
}

// Job is one call of a deployer.
type Job struct {
	Request *sdk.Request

	watches *watch.Set
	record  Record
}

// New returns the job of a call.
func New(req *sdk.Request, watches *watch.Set, record Record) *Job {
	return &Job{Request: req, watches: watches, record: record}
}

// First reports whether this is the first call of the item's job. Messages for once in a job belong to it.
func (j *Job) First() bool {
	phase := j.Request.DeployItem.Status.Phase
	return phase == landscaper.DeployItemPhaseInit || phase == landscaper.DeployItemPhaseInitDelete
}

// WarnOf records a warning about ignored fields of the provider configuration.
func (j *Job) WarnOf(unknown []string) {
	if len(unknown) > 0 && j.First() {
		j.Request.Warning(ReasonUnknownField, "spec.config: passed over: "+object.Enumerate(unknown, "; ", MaxListed))
	}
}

// Wait returns the response of an unfinished job. what is the awaited event without "waiting for": the host adds
// these words. A change of a seen object wakes the job before the time is over.
func (j *Job) Wait(what string, after time.Duration, seen []watch.Seen) *sdk.Response {
	j.watches.Follow(j.Item(), seen)
	res := sdk.WaitFor(what, after)
	res.ProviderStatus, res.Conditions = j.record.Unsaved(), j.record.Conditions(false)
	return res
}

// End returns the response for a call with an error.
func (j *Job) End() *sdk.Response {
	return &sdk.Response{ProviderStatus: j.record.Unsaved(), Conditions: j.record.Conditions(false)}
}

// Health returns the response of a check of health with a lack; none for an empty one. A change of a seen object leads
// to another check.
func (j *Job) Health(lacks string, seen []watch.Seen) *sdk.Response {
	j.watches.Keep(j.Item(), seen)
	if lacks == "" {
		return nil
	}
	return sdk.WaitFor(lacks, 0)
}

// Done returns the response of a finished job. If the host checks health, a change of a seen object leads to a check.
func (j *Job) Done(exports map[string]any, seen []watch.Seen) *sdk.Response {
	if !j.Request.ChecksHealth {
		seen = nil
	}
	j.watches.Keep(j.Item(), seen)
	conditions := j.record.Conditions(true)
	return &sdk.Response{ProviderStatus: j.record.Unsaved(), Conditions: conditions, Exports: exports}
}

// Item returns the name of the deploy item.
func (j *Job) Item() types.NamespacedName {
	return types.NamespacedName{Namespace: j.Request.DeployItem.Namespace, Name: j.Request.DeployItem.Name}
}

// PollAfter returns the interval of a job with unwatched objects. It grows with the age of the job: most waits last
// either seconds or minutes.
func PollAfter(req *sdk.Request, now time.Time) time.Duration {
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
