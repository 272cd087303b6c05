package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/pergola-deploy/pergola/host/internal/inspect"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// diffReport is what a job would change.
type diffReport struct {
	// DeployItem is the namespace and the name of the item.
	DeployItem string       `json:"deployItem"`
	Changes    []diffChange `json:"changes"`
}

// diffChange is what a job would do to one object.
type diffChange struct {
	Object string          `json:"object"`
	Action sdk.Action      `json:"action"`
	Before json.RawMessage `json:"before,omitempty"`
	After  json.RawMessage `json:"after,omitempty"`
	Note   string          `json:"note,omitempty"`
}

func newDiffReport(item *v1alpha1.DeployItem, changes []sdk.Change) *diffReport {
	r := &diffReport{DeployItem: item.Namespace + "/" + item.Name, Changes: []diffChange{}}
	for _, c := range changes {
		r.Changes = append(r.Changes, diffChange(c))
	}
	return r
}

func (r *diffReport) count(action sdk.Action) int {
	n := 0
	for _, c := range r.Changes {
		if c.Action == action {
			n++
		}
	}
	return n
}

// verdict is the exit code.
func (r *diffReport) verdict() error {
	switch {
	case r.count(sdk.ActionFail) > 0:
		return failing(fmt.Errorf("a job of the DeployItem %q would fail", r.DeployItem))
	case len(r.Changes) > 0:
		return &exitError{code: exitNo}
	default:
		return nil
	}
}

// text is a report for people. What plugins say reaches the terminal as nothing but text.
func (r *diffReport) text(palette inspect.Palette) string {
	var out strings.Builder
	for _, c := range r.Changes {
		mark, note := markOf[c.Action], strings.TrimSpace(c.Note)
		header := mark + " " + string(c.Action) + " " + inspect.Printable(c.Object)
		if note != "" && !strings.Contains(note, "\n") {
			header, note = header+": "+inspect.Printable(note), ""
		}
		out.WriteString(palette.Paint(colourOf[mark], header) + "\n" + inspect.Indented("    ", note))
		for _, line := range c.lines() {
			out.WriteString("    " + palette.Paint(colourOf[line[:1]], line[:1]+inspect.Printable(line[1:])) + "\n")
		}
	}
	out.WriteString(r.summary() + "\n")
	return out.String()
}

// summary is the last line. Actions that are rare are told only if there are some.
func (r *diffReport) summary() string {
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

// colourOf are the colours of the marks, and of the line that says where a difference is.
var colourOf = map[string]inspect.Colour{
	"+": inspect.Green, "-": inspect.Red, "~": inspect.Yellow, "±": inspect.Yellow, "!": inspect.Red, "@": inspect.Cyan,
}

// lines are what differs, as a unified diff.
func (c *diffChange) lines() []string {
	if c.Action == sdk.ActionKeep || c.Action == sdk.ActionFail && c.After == nil {
		return nil // it stays as it is
	}
	state := func(document json.RawMessage) []string {
		text, err := yamlOf(document)
		if err != nil {
			text = err.Error() + "\n"
		}
		return slices.Collect(strings.Lines(text))
	}
	text, _ := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{ // it writes to memory
		A: state(c.Before), B: state(c.After), Context: 3,
	})
	return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
}
