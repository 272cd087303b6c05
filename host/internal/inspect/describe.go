package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/hostlease"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Evidence has the details of an item.
type Evidence struct {
	Item *v1alpha1.DeployItem
	// TargetErr is the reason why the Target does not resolve.
	TargetErr error
	// Locks are the SyncObjects of the item's namespace.
	Locks []v1alpha1.SyncObject
	// Events of the item, in any order.
	Events []eventsv1.Event
	// Hosts of the cluster; nil if they may not be read.
	Hosts *hostlease.Hosts
	// Unread has the errors of failed reads.
	Unread error
	// Now is the time of the reads.
	Now time.Time
}

// Describe formats all details of an item, without configuration, credentials and exports.
func Describe(e Evidence) string {
	d := &description{Evidence: e}
	d.out.WriteString("DeployItem " + text.Printable(e.Item.Namespace+"/"+e.Item.Name) + "\n")
	d.overview()
	d.section("Job")
	d.job()
	if last := e.Item.Status.LastError; last != nil {
		d.section("Last error")
		d.lastError(last)
	}
	d.section("Results")
	d.results()
	d.tables()
	if e.Unread != nil {
		d.section("Could not be read")
		d.out.WriteString(terminal.Indented("    ", e.Unread.Error()))
	}
	return d.out.String()
}

// description is an unfinished text.
type description struct {
	Evidence

	out strings.Builder
}

func (d *description) overview() {
	item := d.Item
	target, _ := contract.TargetOfItem(item)
	generation := fmt.Sprint(item.Generation)
	if observed := item.Status.ObservedGeneration; observed < 1 {
		generation += "; not taken up yet"
	} else if observed != item.Generation {
		generation += fmt.Sprintf("; the last job was for %d", observed)
	}
	d.field("Phase", cmp.Or(phaseOf(item), "none yet"))
	d.field("Type", string(item.Spec.Type))
	d.field("Created", d.ago(&v1alpha1.Time{Time: item.CreationTimestamp.Time}))
	d.field("Target", target)
	if d.TargetErr != nil {
		d.field("", "does not resolve: "+d.TargetErr.Error())
	}
	d.field("Context", item.Spec.Context)
	d.field("Generation", generation)
	d.field("Deployer", cmp.Or(deployerOf(item), "none has picked up a job yet"))
	for _, lock := range d.Locks {
		if lock.Spec.PodName != "" && strings.HasSuffix(lock.Name, "-"+string(item.UID)) {
			d.field("Lock", fmt.Sprintf("held by %s, taken %s", lock.Spec.PodName, d.ago(&lock.Spec.LastUpdateTime)))
		}
	}
}

func (d *description) job() {
	item, status, state := d.Item, &d.Item.Status, jobState(d.Item)
	d.field("State", state)
	d.field("ID", status.JobID)
	d.field("Set", d.ago(status.JobIDGenerationTime))
	if times := status.TransitionTimes; times != nil && state != jobSet {
		d.field("Picked up", d.ago(times.InitTime))
		if state == jobDone {
			d.field("Finished", d.ago(times.FinishedTime))
		}
	}
	if deadline, err := contract.Deadline(item); state == jobActive && err == nil {
		left := "no limit"
		if !deadline.IsZero() {
			all := cmp.Or(string(item.Spec.Timeout), duration.HumanDuration(contract.TimeoutByDefault(item)))
			left = duration.HumanDuration(max(0, deadline.Sub(d.Now)-contract.Resolution)) + " of " + all
		}
		d.field("Time left", left)
	}
	if c := conditionOf(status, contract.ConditionReconciling); c != nil && state != jobDone {
		d.field("Waiting for", c.Message)
		d.field("", "since: "+d.ago(&c.LastUpdateTime))
	}
	if next, ok := contract.PlannedTry(item); ok && !isPaused(item) {
		at := until(next.At, d.Now) + " (" + next.At.Format(time.RFC3339) + ")"
		d.field("Next try", fmt.Sprintf("number %d, %s", next.Number, at))
	} else if _, known := contract.KnownTry(item); known && !ok {
		d.field("Next try", "none, because retries are switched off")
	}
	if c := conditionOf(status, contract.ConditionPaused); c != nil {
		d.field("Paused", c.Message)
	}
	d.field("Asked for", item.Annotations[v1alpha1.OperationAnnotation])
	if state == jobSet || state == jobNone || contract.Unserved(item) != "" {
		d.field("Note", Message(item))
	}
	d.field("Host", Hostless(item, d.Hosts, d.Now))
}

func (d *description) lastError(last *v1alpha1.Error) {
	reason := last.Reason
	if len(last.Codes) > 0 {
		reason += fmt.Sprintf(" %v", last.Codes)
	}
	d.field("Reason", strings.TrimSpace(reason))
	d.field("While", last.Operation)
	d.field("When", d.ago(&last.LastUpdateTime))
	d.field("Message", last.Message)
	d.field("What to do", Advice(d.Item))
}

func (d *description) results() {
	managed, exports := "its deployer names none", "none"
	if objects, err := managedObjects(d.Item); err == nil {
		managed = fmt.Sprintf("%d; items tree shows them", len(objects))
	}
	if ref := d.Item.Status.ExportReference; ref != nil {
		exports = "in the Secret " + ref.Name
	}
	d.field("Objects", managed)
	d.field("Exports", exports)
}

func (d *description) tables() {
	var conditions, events []terminal.Row
	for _, c := range d.Item.Status.Conditions {
		since := Ago(c.LastTransitionTime.Time, d.Now)
		cells := []string{string(c.Type), string(c.Status), c.Reason, since, c.Message}
		conditions = append(conditions, terminal.Row{Cells: cells})
	}
	slices.SortFunc(conditions, func(a, b terminal.Row) int { return cmp.Compare(a.Cells[0], b.Cells[0]) })
	d.table("Conditions", []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, conditions)

	slices.SortStableFunc(d.Events, func(a, b eventsv1.Event) int { return lastSeen(a).Compare(lastSeen(b)) })
	for _, e := range d.Events {
		count := max(1, e.DeprecatedCount)
		if e.Series != nil {
			count = e.Series.Count
		}
		cells := []string{Ago(lastSeen(e), d.Now), e.Type, e.Reason, fmt.Sprint(count), e.Note}
		events = append(events, terminal.Row{Cells: cells})
	}
	d.table("Events", []string{"LAST", "TYPE", "REASON", "COUNT", "MESSAGE"}, events)
}

// lastSeen returns the last time of an event, in the new or the deprecated fields.
func lastSeen(e eventsv1.Event) time.Time {
	switch {
	case e.Series != nil:
		return e.Series.LastObservedTime.Time
	case e.EventTime.IsZero():
		return e.DeprecatedLastTimestamp.Time
	default:
		return e.EventTime.Time
	}
}

func (d *description) section(title string) { d.out.WriteString("\n" + title + "\n") }

// field writes a name and the lines of a text; nothing without text.
func (d *description) field(name, lines string) {
	if name != "" {
		name += ":"
	}
	for line := range strings.Lines(lines) {
		fmt.Fprintf(&d.out, "  %-13s %s\n", name, text.Printable(strings.TrimRight(line, "\r\n")))
		name = ""
	}
}

// table writes a section with a table; nothing without rows.
func (d *description) table(title string, header []string, rows []terminal.Row) {
	if len(rows) > 0 {
		d.section(title)
		d.out.WriteString(terminal.Indented("  ", terminal.Table(header, rows)))
	}
}

// ago formats a time in the past and its distance from now; "" for no time. By another clock it may be in the future.
func (d *description) ago(at *v1alpha1.Time) string {
	if at.IsZero() {
		return ""
	}
	return Ago(at.Time, d.Now) + " ago (" + at.UTC().Format(time.RFC3339) + ")"
}
