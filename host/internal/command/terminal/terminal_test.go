package terminal_test

import (
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/command/terminal"
)

// No cell and no note controls the terminal, and each row has its line.
func TestTableIsOnlyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "cells")
		raw := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
		note := raw.Draw(t, "note")
		text := terminal.Table([]string{"HEADER"}, []terminal.Row{{Cells: cells, Note: note}, {Cells: []string{"last"}}})
		for _, r := range text {
			if r != '\n' && !unicode.IsPrint(r) {
				t.Fatalf("%q is in %q", r, text)
			}
		}
		rows := 0
		for line := range strings.Lines(text) {
			if !strings.HasPrefix(line, "    ") {
				rows++
			}
		}
		if rows != 3 && !strings.HasPrefix(cells[0], "    ") {
			t.Fatalf("expected a line for the header and each row, but found %q", text)
		}
	})
}
