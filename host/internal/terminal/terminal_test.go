package terminal_test

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode"

	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/terminal"
)

// Whatever plugins say of themselves, the terminal gets nothing but text, and each of them has its line.
func TestTableIsOnlyText(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cells := rapid.SliceOfN(rapid.String(), 1, 5).Draw(t, "cells")
		raw := rapid.Custom(func(t *rapid.T) string { return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes")) })
		notes := rapid.SliceOfN(raw, 0, 3).Draw(t, "notes")
		text := terminal.Table([]string{"HEADER"}, []terminal.Row{{Cells: cells, Notes: notes}, {Cells: []string{"last"}}})
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

func TestColours(t *testing.T) {
	t.Parallel()
	file, err := os.Create(filepath.Join(t.TempDir(), "out"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	const painted = "\x1b[31mno\x1b[0m"
	for _, tc := range []struct {
		reason string
		when   string
		out    io.Writer
		want   string
	}{
		{reason: "memory is no terminal", when: "auto", out: &strings.Builder{}, want: "no"},
		{reason: "a file is no terminal", when: "auto", out: file, want: "no"},
		{reason: "a file may be wanted in colour", when: "always", out: file, want: painted},
		{reason: "nobody wants it", when: "never", out: file, want: "no"},
	} {
		var when terminal.When
		if err := when.Set(tc.when); err != nil {
			t.Fatal(err)
		}
		if got := when.Palette(tc.out).Paint(terminal.Red, "no"); got != tc.want {
			t.Errorf("%s: expected %q, but found %q", tc.reason, tc.want, got)
		}
		if got := when.Palette(tc.out).Paint(terminal.Plain, "no"); got != "no" {
			t.Errorf("%s: expected a plain text to stay as it is, but found %q", tc.reason, got)
		}
	}
	if err := new(terminal.When).Set("sometimes"); err == nil || !strings.Contains(err.Error(), "auto, always or never") {
		t.Errorf("expected to hear what there is, but found: %v", err)
	}
}
