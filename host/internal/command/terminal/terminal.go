// Package terminal formats texts of clusters and plugins for terminals. No text can control the terminal.
package terminal

import (
	"cmp"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

// Colour is the colour of a text; "" for the default.
type Colour string

// The colours.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Grey   Colour = "90"
)

// Palette reports whether texts have colours.
type Palette bool

// Paint gives a text a colour.
func (p Palette) Paint(colour Colour, text string) string {
	if !p || colour == "" || text == "" {
		return text
	}
	return "\x1b[" + string(colour) + "m" + text + "\x1b[0m"
}

// Row is a row of a table.
type Row struct {
	// Cells in order of the columns; "-" stands for an empty cell.
	Cells []string
	// Note is printed below the row.
	Note string
}

// Table aligns rows below a header. No cell can break the table.
func Table(header []string, rows []Row) string {
	rows = append([]Row{{Cells: header}}, rows...)
	var aligned, out strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, 0, len(r.Cells))
		for _, cell := range r.Cells {
			cells = append(cells, cmp.Or(text.Printable(strings.TrimSpace(cell)), "-"))
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // memory takes any text
	}
	_ = w.Flush() // memory takes any text
	lines := strings.Split(aligned.String(), "\n")
	for i, r := range rows {
		out.WriteString(strings.TrimRight(lines[i], " ") + "\n" + Indented("    ", r.Note))
	}
	return out.String()
}

// Indented prefixes each line of a text.
func Indented(before, lines string) string {
	var out strings.Builder
	for line := range strings.Lines(lines) {
		out.WriteString(before + text.Printable(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return out.String()
}
