// Package diffreport shows the changes of a job: as text, as a document, and as an exit code.
package diffreport

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/pergola-deploy/pergola/host/internal/command/cli"
	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Report has the changes of a job.
type Report struct {
	// DeployItem is the namespace and the name of the item.
	DeployItem string   `json:"deployItem"`
	Changes    []Change `json:"changes"`
}

// Change is the change of one object; see sdk.Change.
type Change struct {
	Object string          `json:"object"`
	Action sdk.Action      `json:"action"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Note   string          `json:"note,omitempty"`
	Waits  string          `json:"waits,omitempty"`
}

// New returns the report on an item.
func New(item *v1alpha1.DeployItem, changes []sdk.Change) *Report {
	r := &Report{DeployItem: item.Namespace + "/" + item.Name, Changes: []Change{}}
	for _, c := range changes {
		r.Changes = append(r.Changes, Change(c))
	}
	return r
}

func (r *Report) count(action sdk.Action) int {
	n := 0
	for _, c := range r.Changes {
		if c.Action == action {
			n++
		}
	}
	return n
}

// Verdict returns the exit code: cli.ExitNo for changes, and that of cli.Failing for a job that would fail.
func (r *Report) Verdict() error {
	switch {
	case r.count(sdk.ActionFail) > 0:
		return cli.Failing(fmt.Errorf("a job of the DeployItem %q would fail", r.DeployItem))
	case len(r.Changes) > 0:
		return &cli.ExitError{Code: cli.ExitNo}
	default:
		return nil
	}
}

// Text formats a report for a terminal.
func (r *Report) Text(palette terminal.Palette) string {
	var out strings.Builder
	for _, c := range r.Changes {
		mark, note := markOf[c.Action], strings.TrimSpace(c.Note)
		if c.Waits != "" {
			note = strings.TrimPrefix(note+"; the job waits for it: "+strings.TrimSpace(c.Waits), "; ")
		}
		header := mark + " " + string(c.Action) + " " + text.Printable(c.Object)
		if note != "" && !strings.Contains(note, "\n") {
			header, note = header+": "+text.Printable(note), ""
		}
		out.WriteString(palette.Paint(colourOf[mark], header) + "\n" + terminal.Indented("    ", note))
		for _, line := range c.lines() {
			out.WriteString("    " + palette.Paint(colourOf[line[:1]], line[:1]+text.Printable(line[1:])) + "\n")
		}
	}
	out.WriteString(r.summary() + "\n")
	return out.String()
}

// summary returns the last line. Rare actions are omitted if there are none.
func (r *Report) summary() string {
	if len(r.Changes) == 0 {
		return "Nothing to change."
	}
	usual := []sdk.Action{sdk.ActionCreate, sdk.ActionUpdate, sdk.ActionDelete}
	var parts []string
	for _, action := range append(usual, sdk.ActionRecreate, sdk.ActionKeep, sdk.ActionFail) {
		if n := r.count(action); n > 0 || slices.Contains(usual, action) {
			parts = append(parts, fmt.Sprintf("%d to %s", n, action))
		}
	}
	return strings.Join(parts, ", ") + "."
}

// markOf are the marks of the actions.
var markOf = map[sdk.Action]string{
	sdk.ActionCreate: "+", sdk.ActionUpdate: "~", sdk.ActionRecreate: "±", sdk.ActionDelete: "-", sdk.ActionKeep: "=",
	sdk.ActionFail: "!",
}

// colourOf are the colours of the marks and of the position lines.
var colourOf = map[string]terminal.Colour{
	"+": terminal.Green, "-": terminal.Red, "~": terminal.Yellow, "±": terminal.Yellow,
	"!": terminal.Red, "@": terminal.Cyan,
}

// lines returns the differences as a unified diff.
func (c *Change) lines() []string {
	if c.Action == sdk.ActionKeep || c.Action == sdk.ActionFail && c.After == nil {
		return nil // the object stays unchanged
	}
	state := func(document json.RawMessage) []string {
		text, err := cli.YAML(document)
		if err != nil {
			text = err.Error() + "\n"
		}
		return slices.Collect(strings.Lines(text))
	}
	text, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{ // memory takes any text
		A: state(c.Before), B: state(c.After), Context: 3,
	})
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}
