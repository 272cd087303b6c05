package inspect

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Text is an account for people. name is what they call the program.
func (a *Account) Text(palette terminal.Palette, program string, now time.Time) string {
	w := &accountWriter{now: now}
	w.out.WriteString("DeployItem " + palette.Paint(colourOfPhase(a.Summary), terminal.Printable(a.Namespace+"/"+a.Name)) + "\n")
	a.writeWhat(w, palette)
	a.writeJob(w)
	a.writeErrors(w)
	a.writeResults(w, program)
	a.writeTables(w)
	return w.out.String()
}

func (a *Account) writeWhat(w *accountWriter, palette terminal.Palette) {
	phase := cmp.Or(phaseText(a.Summary), "none yet")
	fmt.Fprintf(&w.out, fieldFormat, "Phase:", palette.Paint(colourOfPhase(a.Summary), terminal.Printable(phase)))
	w.field("Type", string(a.Type))
	w.field("Created", w.ago(&v1alpha1.Time{Time: a.Created.Time}))
	if t := a.TargetAccount; t == nil {
		w.field("Target", "none")
	} else {
		w.field("Target", strings.TrimSpace(t.Name+" "+joined("(", ")", string(t.Type), t.Server)))
		w.field("", prefixed("does not resolve: ", t.Problem))
	}
	w.field("Context", a.Context)
	generation := fmt.Sprint(a.Generation)
	switch a.ObservedGeneration {
	case a.Generation:
	case 0:
		generation += ", for which there was no job yet"
	default:
		generation += fmt.Sprintf("; the last job was for %d", a.ObservedGeneration)
	}
	w.field("Generation", generation)
	w.field("Deployer", cmp.Or(deployerText(a.Deployer), "none has picked up a job yet"))
	if a.Lock != nil {
		w.field("Lock", fmt.Sprintf("held by %s, taken %s (SyncObject %s)", a.Lock.Holder, w.ago(a.Lock.Since), a.Lock.SyncObject))
	}
}

func (a *Account) writeJob(w *accountWriter) {
	w.section("Job")
	w.field("State", string(a.Job.State))
	w.field("ID", a.Job.ID)
	w.field("Set", w.ago(a.Job.Set))
	w.field("Picked up", w.ago(a.Job.PickedUp))
	w.field("Finished", w.ago(a.Job.Finished))
	if a.Job.Finished != nil && a.Job.PickedUp != nil {
		w.field("Took", duration.HumanDuration(a.Job.Finished.Sub(a.Job.PickedUp.Time)))
	}
	switch {
	case a.Job.State != JobUnderWay:
	case a.Job.Deadline == nil:
		w.field("Time left", "no limit")
	default:
		left := a.Job.Deadline.Sub(w.now)
		text := duration.HumanDuration(max(0, left))
		if left <= 0 {
			text = "none: it is over"
		}
		w.field("Time left", text+" of "+cmp.Or(string(a.Timeout), duration.HumanDuration(contract.DefaultTimeout)))
	}
	if a.WaitingFor != "" {
		w.field("Waiting for", a.WaitingFor)
		w.field("", "since: "+w.ago(a.WaitingSince))
	}
	w.field("Asked for", a.Operation)
	unserved := slices.ContainsFunc(a.Conditions, func(c v1alpha1.Condition) bool {
		return c.Type == contract.ConditionServed
	})
	if a.Job.State == JobSet || a.Job.State == JobNone || unserved {
		w.field("Note", a.Message)
	}
}

func (a *Account) writeErrors(w *accountWriter) {
	if a.LastError == nil {
		return
	}
	w.section("Last error")
	codes := make([]string, 0, len(a.LastError.Codes))
	for _, code := range a.LastError.Codes {
		codes = append(codes, string(code))
	}
	w.field("Reason", strings.TrimSpace(a.LastError.Reason+" "+joined("[", "]", codes...)))
	w.field("While", a.LastError.Operation)
	w.field("When", w.ago(&a.LastError.LastUpdateTime))
	w.field("Message", a.LastError.Message)
	w.field("What to do", a.Advice)
	if len(a.LastErrors) < 2 {
		return
	}
	w.section("Errors of the job, the last one at the end")
	for _, e := range a.LastErrors {
		w.item(fmt.Sprintf("%s: %s", w.ago(&e.LastUpdateTime), errorText(e)))
	}
}

func (a *Account) writeResults(w *accountWriter, program string) {
	w.section("Results")
	if a.Managed == nil {
		w.field("Objects", "its deployer names none")
	} else {
		w.field("Objects", fmt.Sprintf("%d; %s items tree -n %s %s shows them", *a.Managed, program, a.Namespace, a.Name))
	}
	if a.Exports == nil {
		w.field("Exports", "none")
	} else {
		w.field("Exports", "in the Secret "+a.Exports.Secret+prefixed(", with the keys ", strings.Join(a.Exports.Keys, ", ")))
	}
	if a.Due != nil {
		w.field("Due again", w.ago(a.Due))
	}
}

func (a *Account) writeTables(w *accountWriter) {
	if len(a.Hooks) > 0 {
		w.section("HTTP hooks")
	}
	for _, h := range a.Hooks {
		capabilities := make([]string, 0, len(h.Capabilities))
		for _, c := range h.Capabilities {
			capabilities = append(capabilities, string(c))
		}
		w.item(fmt.Sprintf("%s %s", h.Registration, joined("(", ")", capabilities...)) + prefixed(": ready: ", string(h.Ready)) + prefixed(": ", h.Message))
	}
	if len(a.Conditions) > 0 {
		w.section("Conditions")
		w.table([]string{"TYPE", "STATUS", "REASON", "SINCE", "MESSAGE"}, conditionCells(a.Conditions, w.now))
	}
	if len(a.Events) > 0 {
		w.section("Events")
		w.table([]string{"LAST", "TYPE", "REASON", "COUNT", "MESSAGE"}, eventCells(a.Events, w.now))
	}
	if len(a.Unread) > 0 {
		w.section("Could not be read")
	}
	for _, unread := range a.Unread {
		w.item(unread)
	}
}

func conditionCells(conditions []v1alpha1.Condition, now time.Time) [][]string {
	cells := make([][]string, 0, len(conditions))
	for _, c := range conditions {
		cells = append(cells, []string{string(c.Type), string(c.Status), c.Reason, Ago(c.LastTransitionTime.Time, now), c.Message})
	}
	slices.SortStableFunc(cells, func(a, b []string) int { return cmp.Compare(a[0], b[0]) })
	return cells
}

func eventCells(events []EventAccount, now time.Time) [][]string {
	cells := make([][]string, 0, len(events))
	for _, e := range events {
		cells = append(cells, []string{Ago(e.Time.Time, now), e.Type, e.Reason, fmt.Sprint(e.Count), e.Message})
	}
	return cells
}

// accountWriter writes sections, fields and lists.
type accountWriter struct {
	out strings.Builder
	now time.Time
}

func (w *accountWriter) section(title string) { w.out.WriteString("\n" + title + "\n") }

// fieldFormat is that of a name and a text.
const fieldFormat = "  %-13s %s\n"

// field writes a name and a text, which may have several lines; nothing for an empty text.
func (w *accountWriter) field(name, text string) {
	if name != "" {
		name += ":"
	}
	for line := range strings.Lines(text) {
		fmt.Fprintf(&w.out, fieldFormat, name, terminal.Printable(strings.TrimRight(line, "\r\n")))
		name = ""
	}
}

func (w *accountWriter) item(text string) {
	w.out.WriteString("  - " + terminal.Printable(text) + "\n")
}

func (w *accountWriter) table(header []string, cells [][]string) {
	rows := make([]terminal.Row, 0, len(cells))
	for _, c := range cells {
		rows = append(rows, terminal.Row{Cells: c})
	}
	for line := range strings.Lines(terminal.Table(header, rows)) {
		w.out.WriteString("  " + line)
	}
}

// ago is how long ago a time was, or how long it is until then, and the time itself; empty for no time.
func (w *accountWriter) ago(at *v1alpha1.Time) string {
	if at.IsZero() {
		return ""
	}
	stamp := " (" + at.UTC().Format(time.RFC3339) + ")"
	switch distance := at.Sub(w.now); {
	case distance.Abs() < 2*time.Second: // the times in a status are whole seconds, some of them rounded up
		return "just now" + stamp
	case distance > 0:
		return "in " + duration.HumanDuration(distance) + stamp
	default:
		return Ago(at.Time, w.now) + " ago" + stamp
	}
}

// joined joins the texts that are not empty, in brackets; empty if there are none.
func joined(before, after string, texts ...string) string {
	texts = slices.DeleteFunc(texts, func(text string) bool { return text == "" })
	if len(texts) == 0 {
		return ""
	}
	return before + strings.Join(texts, ", ") + after
}

// prefixed puts something before a text that is not empty.
func prefixed(before, text string) string {
	if text == "" {
		return ""
	}
	return before + text
}

// colourOfPhase is how an item is painted.
func colourOfPhase(s Summary) terminal.Colour {
	switch {
	case failed(s.Phase):
		return terminal.Red
	case s.Phase == v1alpha1.DeployItemPhaseSucceeded && !s.Deleting:
		return terminal.Green
	default:
		return terminal.Yellow
	}
}
