package main

import (
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"unicode"
)

// row is a row of a table.
type row struct {
	cells []string
	// notes are texts for the lines below the row.
	notes []string
}

// table returns rows in columns below a header. What plugins say cannot break it, nor reach the terminal as anything but text.
func table(header []string, rows []row) string {
	var aligned strings.Builder
	w := tabwriter.NewWriter(&aligned, 0, 0, 2, ' ', 0)
	line := func(cells []string) {
		shown := make([]string, 0, len(cells))
		for _, cell := range cells {
			if strings.TrimSpace(cell) == "" {
				cell = "-"
			}
			shown = append(shown, printable(cell))
		}
		_, _ = fmt.Fprintln(w, strings.Join(shown, "\t")) // it writes to memory
	}
	line(header)
	for _, r := range rows {
		line(r.cells)
	}
	_ = w.Flush() // it writes to memory

	var out strings.Builder
	notes := [][]string{nil} // of the header
	for _, r := range rows {
		notes = append(notes, r.notes)
	}
	lines := strings.Split(aligned.String(), "\n")
	for i, below := range notes {
		out.WriteString(strings.TrimRight(lines[i], " ") + "\n" + indented(below...))
	}
	return out.String()
}

// indented returns texts, each in lines of its own, which stand out from the lines above.
func indented(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		for line := range strings.Lines(text) {
			out.WriteString("    " + printable(strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	return out.String()
}

// printable writes out what a terminal would take for a command.
func printable(text string) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if !strings.ContainsFunc(text, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return text
	}
	var out strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			out.WriteRune(r)
			continue
		}
		quoted := strconv.QuoteRune(r)
		out.WriteString(quoted[1 : len(quoted)-1])
	}
	return out.String()
}

// inMemory writes an amount of memory.
func inMemory(bytes uint64) string {
	const unit = 1 << 20
	if bytes == 0 {
		return ""
	}
	return strconv.FormatUint((bytes+unit/2)/unit, 10) + "Mi"
}
