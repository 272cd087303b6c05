package statuspage

import (
	"time"

	"github.com/pergola-deploy/pergola/host/internal/journal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Job is what a host remembers of a job. It has only what happened in this replica.
type Job struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string `json:"plugin"`
	// Namespace, Name and UID of the DeployItem.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	// JobID is the DeployItem's.
	JobID string `json:"jobID"`
	// Operation is what the plugin is called for: Reconcile, ForceReconcile, Delete or Abort.
	Operation string `json:"operation"`
	// Triggered is when the job was set, in whole seconds; left out if nobody has said.
	Triggered *time.Time `json:"triggered,omitempty"`
	// Began is when this replica first had to do with the job.
	Began time.Time `json:"began"`
	// Ended is when this replica had to do with it for the last time, and is left out as long as the job is under way here. Phase is what it has ended
	// in; left out if this replica has not seen it end, because it goes on elsewhere or another job was set in its place.
	Ended *time.Time `json:"ended,omitempty"`
	Phase string     `json:"phase,omitempty"`
	// WaitingFor is what it waits for, and Until when it is looked at again at the latest; left out if it waits for nothing.
	WaitingFor string     `json:"waitingFor,omitempty"`
	Until      *time.Time `json:"until,omitempty"`
	// LastError is the error that it has met last; left out if it has met none, or has succeeded.
	LastError *JobError `json:"lastError,omitempty"`
	// Calls is how often the plugin was called, Retries how often the job was tried again after an error, and Requests how many requests to the
	// API server with the DeployItems were made for it.
	Calls    int `json:"calls"`
	Retries  int `json:"retries"`
	Requests int `json:"requests"`
	// Timeline is what has happened, oldest first. LeftOut is how many entries are not remembered after the first LeftOutAfter.
	Timeline     []JobEntry `json:"timeline"`
	LeftOut      int        `json:"leftOut,omitempty"`
	LeftOutAfter int        `json:"leftOutAfter,omitempty"`
}

// JobError is an error that a job has met.
type JobError struct {
	// Codes classify it, such as ERR_TIMEOUT.
	Codes []string `json:"codes,omitempty"`
	// Reason is a CamelCase word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// JobEntry is an event in the timeline of a job.
type JobEntry struct {
	// Time at which it was over.
	Time time.Time `json:"time"`
	// Kind is one of PickedUp, Turn, TakenOver, Progress, Waits, Retries, Ended, Left, Lock, Call, Hook, HTTPHook, Request; there may be more.
	Kind string `json:"kind"`
	// Message says more, in a few words for people.
	Message string `json:"message,omitempty"`
	// Seconds is how long it took, each time together; left out for what takes no time.
	Seconds float64 `json:"seconds,omitempty"`
	// Times is how often it has happened. What happens again and again, such as a poll, has one entry with the time of the first one, and Last is
	// that of the last one.
	Times int        `json:"times"`
	Last  *time.Time `json:"last,omitempty"`
}

func jobsOf(jobs []journal.Job) []Job {
	list := make([]Job, 0, len(jobs))
	for i := range jobs {
		list = append(list, jobOf(&jobs[i]))
	}
	return list
}

func jobOf(j *journal.Job) Job {
	job := Job{
		Plugin: j.Plugin, Namespace: j.Namespace, Name: j.Name, UID: string(j.UID), JobID: j.JobID, Operation: j.Operation,
		Triggered: timeOf(j.Triggered), Began: j.Began.UTC(), Ended: timeOf(j.Ended), Phase: string(j.Phase),
		WaitingFor: j.WaitingFor, Until: timeOf(j.Until),
		Calls: j.Calls, Retries: j.Retries, Requests: j.Requests,
		Timeline: make([]JobEntry, 0, len(j.Entries)), LeftOut: j.LeftOut, LeftOutAfter: j.LeftOutAfter,
	}
	if e := j.LastError; e != nil {
		job.LastError = &JobError{Codes: codesOf(e.Codes), Reason: e.Reason, Message: e.Message}
	}
	for _, e := range j.Entries {
		job.Timeline = append(job.Timeline, JobEntry{
			Time: e.Time.UTC(), Kind: e.Kind, Message: e.Message, Seconds: e.Took.Seconds(), Times: e.Times, Last: timeOf(e.Last),
		})
	}
	return job
}

func codesOf(codes []v1alpha1.ErrorCode) []string {
	var texts []string
	for _, code := range codes {
		texts = append(texts, string(code))
	}
	return texts
}

// timeOf is a time, nil for none.
func timeOf(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = t.UTC()
	return &t
}
