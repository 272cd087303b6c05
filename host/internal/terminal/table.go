package terminal

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"unicode/utf8"
)

// Row is a row of a table.
type Row struct {
	// Cells in order of the columns; one without text is shown as "-".
	Cells []string
	// Notes are texts for the lines below the row.
	Notes []string
}

// Table returns rows in columns below a header. No cell can break it.
func Table(header []string, rows []Row) string {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		shown := make([]string, 0, len(cells))
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				cell = "-"
			}
			shown = append(shown, Printable(cell))
		}
		_, _ = fmt.Fprintln(w, strings.Join(shown, "\t")) // it writes to memory
	}
	line(header)
	for _, r := range rows {
		line(r.Cells)
	}
	_ = w.Flush() // it writes to memory

	var out strings.Builder
	notes := [][]string{nil} // of the header
	for _, r := range rows {
		notes = append(notes, r.Notes)
	}
	lines := strings.Split(aligned.String(), "\n")
	for i, below := range notes {
		out.WriteString(strings.TrimRight(lines[i], " ") + "\n" + Indented(below...))
	}
	return out.String()
}

// Lines writes rows one by one, each in columns that are as wide as they have ever been. The zero value has no columns yet.
type Lines struct {
	widths []int
}

// Line returns a row. A cell without text is shown as "-".
func (l *Lines) Line(cells ...string) string {
	var out strings.Builder
	for i, cell := range cells {
		if strings.TrimSpace(cell) == "" {
			cell = "-"
		}
		cell = Printable(cell)
		if i == len(l.widths) {
			l.widths = append(l.widths, 0)
		}
		width := utf8.RuneCountInString(cell)
		l.widths[i] = max(l.widths[i], width)
		out.WriteString(cell)
		if i < len(cells)-1 {
			out.WriteString(strings.Repeat(" ", l.widths[i]-width+2))
		}
	}
	return out.String() + "\n"
}

// Fit makes the columns wide enough for a row without writing it.
func (l *Lines) Fit(cells ...string) { _ = l.Line(cells...) }
