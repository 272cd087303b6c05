package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/pmezard/go-difflib/difflib"

	"github.com/pergola-deploy/pergola/host/internal/terminal"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// diffContext is how many lines are shown around those that differ.
	diffContext = 3
	// maxDiffLines is how many lines are shown of one change at most.
	maxDiffLines = 300
	// maxDiffBytes is how large the states of one object may be together to be compared line by line, which takes its time.
	maxDiffBytes = 1 << 20
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
func (r *diffReport) text(palette terminal.Palette) (string, error) {
	var out strings.Builder
	for _, c := range r.Changes {
		header, notes := c.header()
		out.WriteString(palette.Paint(colourOf[markOf[c.Action]], header) + "\n" + terminal.Indented(notes))
		lines, err := c.lines()
		if err != nil {
			return "", err
		}
		for i, line := range lines {
			if i == maxDiffLines {
				fmt.Fprintf(&out, "    … and %d more lines; -o yaml has all of it\n", len(lines)-i)
				break
			}
			out.WriteString("    " + palette.Paint(colourOf[line[:1]], line[:1]+terminal.Printable(line[1:])) + "\n")
		}
	}
	out.WriteString(r.summary() + "\n")
	return out.String(), nil
}

// summary is the last line.
func (r *diffReport) summary() string {
	if len(r.Changes) == 0 {
		return "Nothing to change."
	}
	text := fmt.Sprintf("%d to create, %d to update, %d to delete", r.count(sdk.ActionCreate), r.count(sdk.ActionUpdate), r.count(sdk.ActionDelete))
	for _, rare := range []struct {
		action sdk.Action
		text   string
	}{{sdk.ActionRecreate, "to recreate"}, {sdk.ActionKeep, "to keep"}, {sdk.ActionFail, "to fail"}} {
		if n := r.count(rare.action); n > 0 {
			text += fmt.Sprintf(", %d %s", n, rare.text)
		}
	}
	return text + "."
}

// markOf are the marks of the actions.
var markOf = map[sdk.Action]string{
	sdk.ActionCreate: "+", sdk.ActionUpdate: "~", sdk.ActionRecreate: "±", sdk.ActionDelete: "-", sdk.ActionKeep: "=", sdk.ActionFail: "!",
}

// colourOf are the colours of the marks, and of the line that says where a difference is.
var colourOf = map[string]terminal.Colour{
	"+": terminal.Green, "-": terminal.Red, "~": terminal.Yellow, "±": terminal.Yellow, "!": terminal.Red, "@": terminal.Cyan,
}

// header is the line of a change; notes have lines of their own below it if there are several.
func (c *diffChange) header() (line, notes string) {
	line = markOf[c.Action] + " " + string(c.Action) + " " + terminal.Printable(c.Object)
	switch note := strings.TrimSpace(c.Note); {
	case note == "":
		return line, ""
	case strings.Contains(note, "\n"):
		return line, note
	default:
		return line + ": " + terminal.Printable(note), ""
	}
}

// lines are what differs, each with its mark in front: those of a unified diff.
func (c *diffChange) lines() ([]string, error) {
	staysAsItIs := c.Action == sdk.ActionKeep || c.Action == sdk.ActionFail && c.After == nil
	if c.Before == nil && c.After == nil || staysAsItIs {
		return nil, nil
	}
	if size := len(c.Before) + len(c.After); size > maxDiffBytes {
		return []string{fmt.Sprintf(" … too large to compare line by line, with %d bytes; -o yaml has both states", size)}, nil
	}
	before, err := yamlLines(c.Before)
	if err != nil {
		return nil, err
	}
	after, err := yamlLines(c.After)
	if err != nil {
		return nil, err
	}
	var lines []string
	for _, group := range difflib.NewMatcher(before, after).GetGroupedOpCodes(diffContext) {
		first, last := group[0], group[len(group)-1]
		lines = append(lines, fmt.Sprintf("@@ -%s +%s @@", hunk(first.I1, last.I2), hunk(first.J1, last.J2)))
		for _, code := range group {
			if code.Tag == 'e' {
				lines = append(lines, marked(" ", before[code.I1:code.I2])...)
				continue
			}
			lines = append(lines, marked("-", before[code.I1:code.I2])...)
			lines = append(lines, marked("+", after[code.J1:code.J2])...)
		}
	}
	return lines, nil
}

// hunk writes a range of lines as unified diffs do.
func hunk(from, to int) string {
	switch to - from {
	case 0:
		return fmt.Sprintf("%d,0", from)
	case 1:
		return fmt.Sprintf("%d", from+1)
	default:
		return fmt.Sprintf("%d,%d", from+1, to-from)
	}
}

func marked(mark string, lines []string) []string {
	out := make([]string, 0, len(lines))
	for _, line := range lines {
		out = append(out, mark+line)
	}
	return out
}
