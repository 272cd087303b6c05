package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/control"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// sourceCluster is where moments come from that no replica has told.
const sourceCluster = "cluster"

// Trace is what has happened in a job.
type Trace struct {
	DeployItem string `json:"deployItem"`
	JobID      string `json:"jobID"`
	// Moments in the order of their times.
	Moments []Moment `json:"moments"`
	// Unread says what could not be read, and why.
	Unread []string `json:"unread,omitempty"`
}

// Moment is something that has happened, or the first of several times that it has.
type Moment struct {
	Time time.Time `json:"time"`
	// Source is the replica that tells it, or "cluster" for what objects of the cluster tell, in whole seconds.
	Source string `json:"source"`
	// Kind is a word for what has happened, and Message says more.
	Kind    string `json:"kind"`
	Message string `json:"message,omitempty"`
	// Seconds is how long it took, all times together; zero for what takes no time.
	Seconds float64 `json:"seconds,omitempty"`
	// Times is how often it has happened, and Last when it did so last; zero and nil for once.
	Times int        `json:"times,omitempty"`
	Last  *time.Time `json:"last,omitempty"`
}

// Recollection is what a replica remembers.
type Recollection struct {
	Replica string
	Jobs    []control.Job
	// Err says why it could not be asked.
	Err error
}

// NewTrace puts together what objects of the cluster and replicas tell of a job of an item; of the one that the item has now, if jobID is
// empty. Of another one only replicas can tell.
func NewTrace(e Evidence, jobID string, replicas []Recollection) *Trace {
	t := &Trace{DeployItem: e.Item.Namespace + "/" + e.Item.Name, JobID: cmp.Or(jobID, e.Item.Status.JobID), Moments: []Moment{}}
	if t.JobID == e.Item.Status.JobID {
		t.addCluster(e)
	}
	for _, r := range replicas {
		if r.Err != nil {
			t.Unread = append(t.Unread, r.Replica+": "+r.Err.Error())
		}
		for _, job := range r.Jobs {
			if job.JobID == t.JobID && job.UID == string(e.Item.UID) {
				t.addReplica(r.Replica, job)
			}
		}
	}
	slices.SortStableFunc(t.Moments, func(a, b Moment) int { return a.Time.Compare(b.Time) })
	return t
}

// addCluster adds what objects of the cluster tell of the item's current job.
func (t *Trace) addCluster(e Evidence) {
	job := JobOf(e.Item)
	t.add(job.Set, "Set", "the job is set")
	t.add(job.PickedUp, "PickedUp", joined("by ", "", deployerText(Summarize(e.Item).Deployer)))
	t.add(job.Finished, "Ended", string(e.Item.Status.Phase))
	if c := conditionOf(&e.Item.Status, contract.ConditionReconciling); c != nil && job.State != JobDone && job.State != JobSet {
		t.add(&c.LastUpdateTime, "Waits", c.Message)
	}
	for _, recorded := range e.Item.Status.LastErrors {
		if job.State != JobSet {
			t.add(&recorded.LastUpdateTime, "Error", errorText(recorded))
		}
	}
	if lock := lockOf(e.Item, e.Locks); lock != nil {
		t.add(lock.Since, "Lock", "taken by "+lock.Holder)
	}
	for _, event := range eventsOf(e.Events) {
		if !job.Set.IsZero() && !event.Time.Before(job.Set) {
			moment := Moment{Time: event.Time.Time, Source: sourceCluster, Kind: "Event", Message: event.Reason + ": " + event.Message}
			if event.Count > 1 {
				moment.Times = int(event.Count)
			}
			t.Moments = append(t.Moments, moment)
		}
	}
	for what, err := range map[string]error{"the locks": e.LocksErr, "the events": e.EventsErr} {
		if err != nil {
			t.Unread = append(t.Unread, what+": "+err.Error())
		}
	}
	slices.Sort(t.Unread)
}

// add adds something that an object of the cluster tells, if it has the time of it.
func (t *Trace) add(at *v1alpha1.Time, kind, message string) {
	if !at.IsZero() {
		t.Moments = append(t.Moments, Moment{Time: at.UTC(), Source: sourceCluster, Kind: kind, Message: message})
	}
}

// addReplica adds what a replica remembers of the job.
func (t *Trace) addReplica(replica string, job control.Job) {
	for i, entry := range job.Timeline {
		moment := Moment{Time: entry.Time, Source: replica, Kind: entry.Kind, Message: entry.Message, Seconds: entry.Seconds}
		if entry.Times > 1 {
			moment.Times, moment.Last = entry.Times, entry.Last
		}
		t.Moments = append(t.Moments, moment)
		if job.LeftOut > 0 && i+1 == job.LeftOutAfter {
			t.Moments = append(t.Moments, Moment{Time: entry.Time, Source: replica, Kind: "LeftOut", Message: fmt.Sprintf("%d more that are not remembered", job.LeftOut)})
		}
	}
}

// Text is a trace for people, with the time since the first moment.
func (t *Trace) Text() string {
	text := fmt.Sprintf("Job %s of DeployItem %s\n", terminal.Printable(cmp.Or(t.JobID, "(none)")), terminal.Printable(t.DeployItem))
	if len(t.Moments) == 0 {
		text += "Nobody remembers anything of it.\n"
	} else {
		text += terminal.Table([]string{"TIME", "AFTER", "SOURCE", "WHAT", "TOOK", "MESSAGE"}, t.rows())
	}
	for _, unread := range t.Unread {
		text += "not read: " + terminal.Printable(unread) + "\n"
	}
	return text
}

func (t *Trace) rows() []terminal.Row {
	rows := make([]terminal.Row, 0, len(t.Moments))
	first := t.Moments[0].Time
	for _, m := range t.Moments {
		message := m.Message
		if m.Times > 1 {
			message += fmt.Sprintf(" (%d times", m.Times)
			if m.Last != nil {
				message += ", the last one after " + span(m.Last.Sub(first))
			}
			message += ")"
		}
		took := ""
		if m.Seconds > 0 {
			took = span(time.Duration(m.Seconds * float64(time.Second)))
		}
		rows = append(rows, terminal.Row{Cells: []string{
			m.Time.UTC().Format("15:04:05.000"), span(m.Time.Sub(first)), m.Source, m.Kind, took, strings.TrimSpace(message),
		}})
	}
	return rows
}

// span writes a time span, with milliseconds if it is short.
func span(d time.Duration) string {
	if d < time.Minute {
		return d.Round(time.Millisecond).String()
	}
	return duration.HumanDuration(d)
}
