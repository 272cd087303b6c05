package output

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"
	"unicode"
)

const (
	tailLines = 20
	// tailLine bounds a line of the tail, so that all of them are less than 16 KiB.
	tailLine = 800
	// keptLine is how much of a line is kept, so that a record of slog's or hclog's can be read as one.
	keptLine = 8 << 10
)

// escapeSequence is what colours the text on a terminal, or moves its cursor.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// tail is the last lines of a plugin. It allocates nothing once it is full, because every line of a flood passes through it.
type tail struct {
	ring [tailLines]struct {
		text []byte
		at   time.Time
	}
	next int
}

func (t *tail) add(now time.Time, text []byte) {
	slot := &t.ring[t.next%tailLines]
	slot.text, slot.at = append(slot.text[:0], text[:min(len(text), keptLine)]...), now
	t.next++
}

// lines returns those since a time as plain text, oldest first.
func (t *tail) lines(since time.Time) []string {
	var list []string
	for i := max(t.next-tailLines, 0); i < t.next; i++ {
		if slot := &t.ring[i%tailLines]; !slot.at.Before(since) {
			text := plain(slot.text, slot.at)
			list = append(list, strings.ToValidUTF8(text[:min(len(text), tailLine)], "")) // a clean text may be longer than it was
		}
	}
	return list
}

// plain is a line as people read it, without anything that is no text: of a record its message and attributes.
func plain(line []byte, at time.Time) string {
	text := string(line)
	if record, err := parseRecord(line, at, keys{}); err == nil {
		words := []string{record.Message}
		record.Attrs(func(a slog.Attr) bool {
			words = append(words, fmt.Sprintf("%s=%v", a.Key, a.Value))
			return true
		})
		text = strings.Join(words, " ")
	}
	text = strings.ReplaceAll(escapeSequence.ReplaceAllString(text, ""), "\t", "    ")
	return strings.Map(func(r rune) rune {
		if r < ' ' && unicode.IsControl(r) {
			return -1
		}
		return r
	}, clean(text))
}
