package inspect

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// Colour is a colour of texts; none leaves a text as it is.
type Colour string

// The colours.
const (
	Red    Colour = "31"
	Green  Colour = "32"
	Yellow Colour = "33"
	Cyan   Colour = "36"
	Grey   Colour = "90"
)

// Palette reports whether texts are painted.
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
	// Cells in order of the columns; one without text is shown as "-".
	Cells []string
	// Note is a text for the lines below the row.
	Note string
}

// TextTable returns rows in columns below a header. No cell can break it.
func TextTable(header []string, rows []Row) string {
	rows = append([]Row{{Cells: header}}, rows...)
	var aligned, out strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	for _, r := range rows {
		cells := make([]string, 0, len(r.Cells))
		for _, cell := range r.Cells {
			cells = append(cells, cmp.Or(Printable(strings.TrimSpace(cell)), "-"))
		}
		_, _ = fmt.Fprintln(w, strings.Join(cells, "\t")) // it writes to memory
	}
	_ = w.Flush() // it writes to memory
	lines := strings.Split(aligned.String(), "\n")
	for i, r := range rows {
		out.WriteString(strings.TrimRight(lines[i], " ") + "\n" + Indented("    ", r.Note))
	}
	return out.String()
}

// Indented puts something before each line of a text.
func Indented(before, text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString(before + Printable(strings.TrimRight(line, "\r\n")) + "\n")
	}
	return out.String()
}

// Printable writes out what a terminal would take for a command.
func Printable(text string) string {
	var out strings.Builder
	for _, r := range text { // what is no UTF-8 is U+FFFD here
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}
