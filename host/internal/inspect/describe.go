package inspect

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Evidence is what was read about an item. What could not be read is its zero value, and the error beside it says why.
type Evidence struct {
	Item *v1alpha1.DeployItem
	// TargetErr says why the Target of the item leads nowhere.
	TargetErr error
	// Locks are the SyncObjects of the item's namespace.
	Locks    []v1alpha1.SyncObject
	LocksErr error
	// Events are those of the item, in any order.
	Events    []eventsv1.Event
	EventsErr error
	// Now is when all of it was read.
	Now time.Time
}

// Describe is everything that is known about an item, for people. Of its configuration, its credentials and its exports nothing is in it.
func Describe(e Evidence) string {
	d := &description{Evidence: e}
	fmt.Fprintf(&d.out, "DeployItem %s\n", Printable(e.Item.Namespace+"/"+e.Item.Name))
	d.what()
	d.job()
	d.lastError()
	d.results()
	d.tables()
	return d.out.String()
}

// description is a text in the making.
type description struct {
	Evidence

	out strings.Builder
}

func (d *description) what() {
	item := d.Item
	d.field("Phase", cmp.Or(phaseOf(item), "none yet"))
	d.field("Type", string(item.Spec.Type))
	d.field("Created", d.ago(&v1alpha1.Time{Time: item.CreationTimestamp.Time}))
	if item.Spec.Target != nil {
		d.field("Target", item.Spec.Target.Name)
	}
	if d.TargetErr != nil {
		d.field("", "does not resolve: "+d.TargetErr.Error())
	}
	d.field("Context", item.Spec.Context)
	generation := fmt.Sprint(item.Generation)
	if item.Status.ObservedGeneration != item.Generation {
		generation += fmt.Sprintf("; the last job was for %d", item.Status.ObservedGeneration)
	}
	d.field("Generation", generation)
	d.field("Deployer", cmp.Or(deployerOf(item), "none has picked up a job yet"))
	for _, lock := range d.Locks {
		if lock.Spec.PodName != "" && strings.HasSuffix(lock.Name, "-"+string(item.UID)) {
			d.field("Lock", fmt.Sprintf("held by %s, taken %s", lock.Spec.PodName, d.ago(&lock.Spec.LastUpdateTime)))
		}
	}
}

func (d *description) job() {
	item, status := d.Item, &d.Item.Status
	state := stateOf(item)
	d.section("Job")
	d.field("State", string(state))
	d.field("ID", status.JobID)
	d.field("Set", d.ago(status.JobIDGenerationTime))
	if times := status.TransitionTimes; times != nil && state != JobSet {
		d.field("Picked up", d.ago(times.InitTime))
		if state == JobDone {
			d.field("Finished", d.ago(times.FinishedTime))
		}
	}
	if deadline, err := contract.Deadline(item); state == JobUnderWay && err == nil {
		left := "no limit"
		if !deadline.IsZero() {
			left = duration.HumanDuration(max(0, deadline.Sub(d.Now))) + " of " +
				cmp.Or(string(item.Spec.Timeout), duration.HumanDuration(contract.DefaultTimeout))
		}
		d.field("Time left", left)
	}
	if c := conditionOf(status, contract.ConditionReconciling); c != nil && state != JobDone {
		d.field("Waiting for", c.Message)
		d.field("", "since: "+d.ago(&c.LastUpdateTime))
	}
	d.field("Asked for", item.Annotations[v1alpha1.OperationAnnotation])
	if state == JobSet || state == JobNone || contract.Unserved(item) != "" {
		d.field("Note", Message(item))
	}
}

func (d *description) lastError() {
	last := d.Item.Status.LastError
	if last == nil {
		return
	}
	d.section("Last error")
	codes := ""
	if len(last.Codes) > 0 {
		codes = fmt.Sprint(last.Codes)
	}
	d.field("Reason", strings.TrimSpace(last.Reason+" "+codes))
	d.field("While", last.Operation)
	d.field("When", d.ago(&last.LastUpdateTime))
	d.field("Message", last.Message)
	d.field("What to do", Advice(d.Item))
}

func (d *description) results() {
	d.section("Results")
	if objects, ok := ManagedObjects(d.Item); ok {
		d.field("Objects", fmt.Sprintf("%d; items tree shows them", len(objects)))
	} else {
		d.field("Objects", "its deployer names none")
	}
	exports := "none"
	if ref := d.Item.Status.ExportReference; ref != nil {
		exports = "in the Secret " + ref.Name
	}
	d.field("Exports", exports)
}

func (d *description) tables() {
	conditions := [][]string{}
	for _, c := range d.Item.Status.Conditions {
		conditions = append(conditions, []string{string(c.Type), string(c.Status), c.Reason, Ago(c.LastTransitionTime.Time, d.Now), c.Message})
	}
	slices.SortFunc(conditions, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	d.table("Conditions", []string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, conditions)
	events := [][]string{}
	for _, e := range eventsOf(d.Events) {
		events = append(events, []string{Ago(e.Time.Time, d.Now), e.Type, e.Reason, fmt.Sprint(e.Count), e.Message})
	}
	d.table("Events", []string{"LAST", "TYPE", "REASON", "COUNT", "MESSAGE"}, events)
	if err := errors.Join(d.LocksErr, d.EventsErr); err != nil {
		d.section("Could not be read")
		d.out.WriteString(Indented(err.Error()))
	}
}

// event is an event of an item, and how often it came.
type event struct {
	Time                  v1alpha1.Time
	Type, Reason, Message string
	Count                 int32
}

// eventsOf returns events in the order of their times.
func eventsOf(events []eventsv1.Event) []event {
	all := make([]event, 0, len(events))
	for _, e := range events {
		at, count := e.EventTime.Time, max(1, e.DeprecatedCount)
		if at.IsZero() {
			at = e.DeprecatedLastTimestamp.Time
		}
		if e.Series != nil {
			at, count = e.Series.LastObservedTime.Time, e.Series.Count
		}
		all = append(all, event{Time: v1alpha1.NewTime(at), Type: e.Type, Reason: e.Reason, Message: e.Note, Count: count})
	}
	slices.SortStableFunc(all, func(a, b event) int { return a.Time.Compare(b.Time.Time) })
	return all
}

func (d *description) section(title string) { d.out.WriteString("\n" + title + "\n") }

// field writes a name and a text, which may have several lines; nothing for an empty text.
func (d *description) field(name, text string) {
	if name != "" {
		name += ":"
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(&d.out, "  %-13s %s\n", name, Printable(strings.TrimRight(line, "\r\n")))
		name = ""
	}
}

// table writes a section with a table, unless it has no rows.
func (d *description) table(title string, header []string, cells [][]string) {
	if len(cells) == 0 {
		return
	}
	d.section(title)
	rows := make([]Row, 0, len(cells))
	for _, c := range cells {
		rows = append(rows, Row{Cells: c})
	}
	for line := range strings.Lines(TextTable(header, rows)) {
		d.out.WriteString("  " + line)
	}
}

// ago is how long ago a time was, or how long it is until then, and the time itself; empty for no time.
func (d *description) ago(at *v1alpha1.Time) string {
	if at.IsZero() {
		return ""
	}
	stamp := " (" + at.UTC().Format(time.RFC3339) + ")"
	if distance := at.Sub(d.Now); distance > 0 {
		return "in " + duration.HumanDuration(distance) + stamp
	}
	return Ago(at.Time, d.Now) + " ago" + stamp
}

// prefixed puts something before a text that is not empty.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}
