// Package text makes texts for users: bounded, printable, and about values of a wrong type in their words.
package text

import (
	"strconv"
	"strings"
	"unicode"
)

// Cut bounds a text for a status, an event or a log line: it returns valid UTF-8 of at most maxBytes bytes, either the
// whole text, or its beginning and an ellipsis.
func Cut(text string, maxBytes int) string {
	const mark = "…"
	if len(text) <= maxBytes {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:max(maxBytes-len(mark), 0)], "") + mark
}

// Printable escapes control characters and others without a glyph, so that a terminal takes nothing for a command.
func Printable(text string) string {
	var out strings.Builder
	// The loop replaces bytes outside UTF-8 by U+FFFD.
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
