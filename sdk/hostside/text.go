package hostside

import "strings"

const (
	// MaxText bounds names.
	MaxText = 253
	// MaxMessage bounds sentences.
	MaxMessage = 8 << 10
)

// Bounded returns a sentence of a plugin for the status of an object.
func Bounded(text string) string { return Cut(text, MaxMessage) }

// Cut returns valid UTF-8 of at most size bytes, and a mark where it is cut.
func Cut(text string, size int) string {
	if len(text) > size {
		text = text[:size] + " … (cut)"
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}

func name(text string) string { return Cut(text, MaxText) }
