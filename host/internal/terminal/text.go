package terminal

import (
	"strconv"
	"strings"
	"unicode"
)

// Indented returns texts, each in lines of its own, which stand out from the lines above.
func Indented(texts ...string) string {
	var out strings.Builder
	for _, text := range texts {
		for line := range strings.Lines(text) {
			out.WriteString("    " + Printable(strings.TrimRight(line, "\r\n")) + "\n")
		}
	}
	return out.String()
}

// Printable writes out what a terminal would take for a command.
func Printable(text string) string {
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
