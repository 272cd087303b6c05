package contract

import "strings"

// Cut bounds a text for a status, an event or a log line: it returns valid UTF-8 of at most maxBytes bytes, which is
// the text, or its beginning and an ellipsis.
func Cut(text string, maxBytes int) string {
	const mark = "…"
	if len(text) <= maxBytes {
		return strings.ToValidUTF8(text, "\uFFFD")
	}
	return strings.ToValidUTF8(text[:max(maxBytes-len(mark), 0)], "") + mark
}
