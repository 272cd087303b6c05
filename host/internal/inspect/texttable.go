package inspect

import (
	"fmt"
	"strings"
	"text/tabwriter"
)

// Row is a row of a table.
type Row struct {
	// Cells in order of the columns; one without text is shown as "-".
	Cells []string
	// Notes are texts for the lines below the row.
	Notes []string
}

// TextTable returns rows in columns below a header. No cell can break it.
func TextTable(header []string, rows []Row) string {
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
