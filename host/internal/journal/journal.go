// Package journal is what a replica remembers of the jobs that it has carried out, so that people can see what happened when, and what a job
// waits for. It is in memory, bounded, and gone with the replica: nothing depends on it.
package journal

import (
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/observe"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Limits bound a Journal.
type Limits struct {
	// Jobs is how many jobs are remembered that have ended, or gone elsewhere. Defaults to 2000.
	Jobs int
	// Open is how many jobs are remembered that are under way. Defaults to 20000.
	Open int
	// Entries is how many entries of one job are remembered: its first ones and its last ones. Defaults to 100.
	Entries int
	// Message is how many bytes of a text are remembered. Defaults to 1 KiB.
	Message int
	// Bytes is how many bytes the messages of all entries may have together. Defaults to 16 MiB.
	Bytes int
}

func (l Limits) withDefaults() Limits {
	set := func(limit *int, value int) {
		if *limit <= 0 {
			*limit = value
		}
	}
	set(&l.Jobs, 2000)
	set(&l.Open, 20000)
	set(&l.Entries, 100)
	set(&l.Message, 1<<10)
	set(&l.Bytes, 16<<20)
	return l
}

// Job is what is remembered of a job. Times are zero as long as they are not known.
type Job struct {
	// Plugin is the name that the plugin gives itself.
	Plugin string
	// Namespace, Name and UID are those of the deploy item.
	Namespace, Name string
	UID             types.UID
	// JobID is the item's.
	JobID string
	// Operation is what the plugin is called for: Reconcile, ForceReconcile, Delete or Abort.
	Operation string
	// Triggered is when the job was set, in whole seconds.
	Triggered time.Time
	// Began is when this replica first had to do with it, and Ended when it had for the last time: because it has ended, or goes on elsewhere, or
	// another job was set in its place.
	Began, Ended time.Time
	// Phase that it has ended in; empty if this replica has not seen it end.
	Phase v1alpha1.DeployItemPhase
	// WaitingFor is what it waits for, and Until when it is looked at again at the latest.
	WaitingFor string
	Until      time.Time
	// LastError is the error that it has met last; nil if it has met none.
	LastError *Error
	// Calls is how often the plugin was called, Retries how often the job was tried again after an error, and Requests how many requests to the
	// API server were made for it.
	Calls, Retries, Requests int
	// Entries are the timeline, and LeftOut is how many entries in its middle are not remembered, after the first LeftOutAfter.
	Entries               []Entry
	LeftOut, LeftOutAfter int
}

// Error is an error that a job has met.
type Error struct {
	Codes           []v1alpha1.ErrorCode
	Reason, Message string
}

// Entry is an event in a timeline.
type Entry struct {
	// Time at which it was over.
	Time time.Time
	// Kind and Message are those of the event.
	Kind, Message string
	// Took is how long it took, each time together; zero for what takes no time.
	Took time.Duration
	// Times is how often it has happened: what happens again and again, such as a poll, has one entry. Time is that of the first time then, and Last
	// that of the last one; it is zero for what has happened once.
	Times int
	Last  time.Time
}

// key names a job.
type key struct {
	uid types.UID
	id  string
}

// record is a job with what is needed to remember no more than is allowed.
type record struct {
	Job

	bytes int
}

// Journal remembers jobs. It is safe for concurrent use.
type Journal struct {
	limits Limits

	mu      sync.Mutex
	jobs    map[key]*record
	order   []key                 // of their beginnings, oldest first
	current map[types.UID]*record // what is under way: no more than one job of an item
	bytes   int
}

var _ observe.Observer = (*Journal)(nil)

// New returns an empty Journal. A limit of zero stands for its default.
func New(limits Limits) *Journal {
	return &Journal{limits: limits.withDefaults(), jobs: map[key]*record{}, current: map[types.UID]*record{}}
}

// Jobs returns what is remembered, newest first: of all items, or of those of a namespace and with a name, as far as these are not empty. It
// belongs to the caller.
func (j *Journal) Jobs(namespace, name string) []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	jobs := []Job{}
	for _, k := range slices.Backward(j.order) {
		r := j.jobs[k]
		if namespace != "" && r.Namespace != namespace || name != "" && r.Name != name {
			continue
		}
		job := r.Job
		job.Entries = slices.Clone(r.Entries)
		jobs = append(jobs, job)
	}
	return jobs
}

// Overview returns all that is remembered, newest first, without the timelines: those are most of it, and the host cannot go on while they are copied.
func (j *Journal) Overview() []Job {
	j.mu.Lock()
	defer j.mu.Unlock()
	jobs := make([]Job, 0, len(j.order))
	for _, k := range slices.Backward(j.order) {
		job := j.jobs[k].Job
		job.Entries = nil
		jobs = append(jobs, job)
	}
	return jobs
}

// Size is how many jobs are remembered.
func (j *Journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.order)
}

// Observe implements observe.Observer.
func (j *Journal) Observe(job observe.Job, at time.Time, event observe.Event) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if left, ok := event.(observe.Left); ok {
		j.leave(job.UID, at, left.Why)
	}
	if job.ID == "" {
		return
	}
	r := j.recordOf(job, at)
	j.change(r, func() { j.note(r, at, event) })
	j.shrink()
}

// change lets a record be changed, and keeps count.
func (j *Journal) change(r *record, do func()) {
	j.uncount(r)
	do()
	j.bytes += r.bytes
	if r.Ended.IsZero() {
		j.current[r.UID] = r
	}
}

// uncount counts a record no more.
func (j *Journal) uncount(r *record) {
	j.bytes -= r.bytes
	if r.Ended.IsZero() {
		delete(j.current, r.UID)
	}
}

// recordOf returns the record of a job, a new one if there is none.
func (j *Journal) recordOf(job observe.Job, at time.Time) *record {
	k := key{uid: job.UID, id: job.ID}
	r, ok := j.jobs[k]
	if !ok {
		j.leave(job.UID, at, "another job was set")
		r = &record{Job: Job{
			Plugin: job.Plugin, Namespace: job.Item.Namespace, Name: job.Item.Name, UID: job.UID, JobID: job.ID, Began: at,
		}}
		j.jobs[k] = r
		j.order = append(j.order, k)
		j.current[job.UID] = r
	}
	r.Operation = job.Operation // a job is aborted in the middle
	return r
}

// leave ends what is under way for an item, as far as this replica is concerned.
func (j *Journal) leave(uid types.UID, at time.Time, why string) {
	r := j.current[uid]
	if r == nil {
		return
	}
	j.change(r, func() {
		r.Ended = at
		r.wait("", time.Time{})
		r.add(Entry{Time: at, Kind: string(observe.KindLeft), Message: why, Times: 1}, j.limits.Entries)
	})
}

// note notes an event.
func (j *Journal) note(r *record, at time.Time, event observe.Event) {
	entry := Entry{Time: at, Kind: string(event.Kind()), Message: j.cut(event.Message()), Times: 1}
	switch e := event.(type) {
	case observe.PickedUp:
		r.Triggered = e.Triggered
		r.Ended, r.Phase = time.Time{}, "" // it may be set again
		r.wait("", time.Time{})
	case observe.TakenOver:
		r.Ended, r.Phase = time.Time{}, "" // it may come back
	case observe.Turn:
		entry.Took = e.Waited
	case observe.Progress:
		r.wait(entry.Message, time.Time{})
	case observe.Waits:
		r.wait(entry.Message, e.Until)
	case observe.Retries:
		r.Retries++
		r.LastError = j.errorOf(e.Error)
		r.wait("", e.Until)
	case observe.Ended:
		r.Triggered, r.Phase, r.Ended = e.Triggered, e.Phase, at
		r.LastError = nil
		if e.Error != nil {
			r.LastError = j.errorOf(*e.Error)
		}
		r.wait("", time.Time{})
	case observe.Done:
		entry.Took = e.Took
		if !r.count(e) {
			return
		}
	}
	r.add(entry, j.limits.Entries)
}

func (r *record) wait(waitingFor string, until time.Time) { r.WaitingFor, r.Until = waitingFor, until }

// count counts work, and tells whether it is worth an entry: requests that only read are not.
func (r *record) count(done observe.Done) bool {
	switch done.Of {
	case observe.KindCall:
		r.Calls++
	case observe.KindRequest:
		r.Requests++
		return !strings.HasPrefix(done.Name, "GET ")
	default:
	}
	return true
}

// repeats is how many entries a job that polls goes through again and again: a call, the write of what has come of it, and what is waited for.
const repeats = 3

// add adds an entry, or notes that it is one of the last again.
func (r *record) add(e Entry, limit int) {
	for i := range r.Entries[max(0, len(r.Entries)-repeats):] {
		last := &r.Entries[len(r.Entries)-1-i]
		if last.Kind == e.Kind && last.Message == e.Message {
			last.Last, last.Took, last.Times = e.Time, last.Took+e.Took, last.Times+1
			return
		}
	}
	r.Entries = append(r.Entries, e)
	r.bytes += len(e.Message)
	if len(r.Entries) > limit {
		r.LeftOutAfter = limit / 4
		r.LeftOut++
		r.bytes -= len(r.Entries[r.LeftOutAfter].Message)
		r.Entries = slices.Delete(r.Entries, r.LeftOutAfter, r.LeftOutAfter+1)
	}
}

// shrink forgets what is too much: the oldest jobs that have ended, then the timelines of those that wait longest. A job that is under way is forgotten
// only if there are far more than a host ever has: its next event would make it begin anew.
func (j *Journal) shrink() {
	for ended := len(j.order) - len(j.current); ended > j.limits.Jobs || ended > 0 && j.bytes > j.limits.Bytes && len(j.order) > 1; ended-- {
		j.forget(slices.IndexFunc(j.order, func(k key) bool { return !j.jobs[k].Ended.IsZero() }))
	}
	for len(j.current) > j.limits.Open {
		j.forget(slices.IndexFunc(j.order, func(k key) bool { return j.jobs[k].Ended.IsZero() }))
	}
	for i := 0; j.bytes > j.limits.Bytes && i < len(j.order)-1; i++ {
		r := j.jobs[j.order[i]]
		j.change(r, r.forgetTimeline)
	}
}

// forget forgets a job, by its place in the order.
func (j *Journal) forget(place int) {
	k := j.order[place]
	j.uncount(j.jobs[k])
	delete(j.jobs, k)
	j.order = slices.Delete(j.order, place, place+1)
}

func (r *record) forgetTimeline() {
	r.LeftOut += len(r.Entries)
	r.LeftOutAfter, r.Entries, r.bytes = 0, nil, 0
}

func (j *Journal) errorOf(e observe.Error) *Error {
	return &Error{Codes: e.Codes, Reason: e.Reason, Message: j.cut(e.Text)}
}

// cut shortens a text to what is remembered of it, between two characters.
func (j *Journal) cut(text string) string {
	if len(text) <= j.limits.Message {
		return text
	}
	return strings.ToValidUTF8(text[:j.limits.Message], "") + "…"
}
