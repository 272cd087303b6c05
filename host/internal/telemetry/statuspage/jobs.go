package statuspage

import (
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxRunning is the number of remembered running jobs, and maxErrors that of failed ones.
	maxRunning = 20000
	maxErrors  = 20
	// maxText is the number of remembered bytes of a text.
	maxText = 1 << 10
)

// Job is the memory of a replica about a job. It has only events of this replica.
type Job struct {
	// Plugin is the reported name of the plugin.
	Plugin string `json:"plugin"`
	// Namespace, Name, UID and JobID of the DeployItem.
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
	JobID     string `json:"jobID"`
	// Operation of the calls: Reconcile, ForceReconcile, Delete or Abort.
	Operation string `json:"operation"`
	// Began is the time of the first event of the job in this replica, and Ended that of its end; left out while it runs.
	Began time.Time  `json:"began"`
	Ended *time.Time `json:"ended,omitempty"`
	// WaitingFor is the cause of the wait; left out without a wait.
	WaitingFor string `json:"waitingFor,omitempty"`
	// LastError is the last error; left out without one.
	LastError *JobError `json:"lastError,omitempty"`
	// Calls is the number of calls of the plugin.
	Calls int `json:"calls"`
	// SucceededSince reports for a failed job whether a later job of the DeployItem has succeeded.
	SucceededSince bool `json:"succeededSince,omitempty"`
}

// JobError is an error of a job.
type JobError struct {
	// Codes classify it, such as ERR_TIMEOUT.
	Codes []v1alpha1.ErrorCode `json:"codes,omitempty"`
	// Reason is a CamelCase word.
	Reason string `json:"reason,omitempty"`
	// Message is for people.
	Message string `json:"message"`
}

// Jobs remembers the running and the last failed jobs of a replica, in memory. It is safe for concurrent use.
type Jobs struct {
	mu sync.Mutex
	// running has at most one job of each DeployItem.
	running map[types.UID]Job
	// failed begins with the newest.
	failed []Job
}

var _ telemetry.Observer = (*Jobs)(nil)

// NewJobs returns empty Jobs.
func NewJobs() *Jobs { return &Jobs{running: map[types.UID]Job{}} }

// Observe implements telemetry.Observer.
func (j *Jobs) Observe(job telemetry.Job, at time.Time, event telemetry.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if _, left := event.(telemetry.Left); left {
		delete(j.running, job.UID)
		return
	}
	if job.ID == "" {
		return
	}
	running := j.running[job.UID]
	if running.JobID != job.ID {
		running = Job{
			Plugin: job.Plugin, Namespace: job.Item.Namespace, Name: job.Item.Name, UID: string(job.UID), JobID: job.ID,
			Began: at.UTC(),
		}
	}
	// An abort changes the operation of a running job.
	running.Operation = job.Operation
	switch e := event.(type) {
	case telemetry.PickedUp, telemetry.TakenOver, telemetry.Dequeued:
		running.WaitingFor = ""
	case telemetry.Progress:
		running.WaitingFor = text.Cut(cmp.Or(e.Text, e.Step), maxText)
	case telemetry.Waits:
		running.WaitingFor = text.Cut(e.For, maxText)
	case telemetry.Retries:
		running.WaitingFor, running.LastError = "", errorOf(e.Error)
	case telemetry.Ended:
		delete(j.running, job.UID)
		j.end(running, at.UTC(), e)
		return
	case telemetry.Done:
		// Other work may follow the end of the job.
		if e.Of != telemetry.KindCall {
			return
		}
		running.Calls++
	}
	if _, known := j.running[job.UID]; known || len(j.running) < maxRunning {
		j.running[job.UID] = running
	}
}

func (j *Jobs) end(job Job, at time.Time, e telemetry.Ended) {
	for i := range j.failed {
		if j.failed[i].UID == job.UID && e.Phase == v1alpha1.DeployItemPhaseSucceeded {
			j.failed[i].SucceededSince = true
		}
	}
	if e.Error != nil {
		job.Ended, job.WaitingFor, job.LastError = &at, "", errorOf(*e.Error)
		j.failed = slices.Insert(j.failed, 0, job)
		j.failed = j.failed[:min(len(j.failed), maxErrors)]
	}
}

// Running are the running jobs, the oldest first.
func (j *Jobs) Running() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.SortedFunc(maps.Values(j.running), byBegin)
}

// Failed are the last failed jobs, the newest first.
func (j *Jobs) Failed() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	return slices.Clone(j.failed)
}

func byBegin(a, b Job) int { return cmp.Or(a.Began.Compare(b.Began), cmp.Compare(a.UID, b.UID)) }

func errorOf(e telemetry.Error) *JobError {
	return &JobError{Codes: e.Codes, Reason: e.Reason, Message: text.Cut(e.Text, maxText)}
}
