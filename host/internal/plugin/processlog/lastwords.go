package processlog

import (
	"bytes"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/pergola-deploy/pergola/host/internal/text"
)

const (
	// maxLastLines is the number of last words, and maxLastBytes the length of each.
	maxLastLines = 20
	maxLastBytes = 800
)

// lastLines are the last lines of a process as it wrote them.
type lastLines []lastLine

type lastLine struct {
	text []byte
	at   time.Time
}

func (l *lastLines) add(text []byte, now time.Time) {
	if len(*l) == maxLastLines {
		*l = slices.Delete(*l, 0, 1)
	}
	// Escape sequences and JSON syntax are not yet removed.
	*l = append(*l, lastLine{text: bytes.Clone(text[:min(len(text), 10*maxLastBytes)]), at: now})
}

// since returns the lines from a time on, as plain text.
func (l *lastLines) since(oldest time.Time) []string {
	var words []string
	for _, line := range *l {
		if !line.at.Before(oldest) {
			words = append(words, text.Cut(plainText(line.text), maxLastBytes))
		}
	}
	return words
}

// Cause returns the line of last words with the cause of an end: the first of a crash report, or else the last. Without
// last words it is empty.
func Cause(words []string) string {
	if i := slices.IndexFunc(words, crashStart.MatchString); i >= 0 {
		return words[i]
	}
	if len(words) == 0 {
		return ""
	}
	return words[len(words)-1]
}

// escapeSequence matches colours and cursor movements of a terminal.
var escapeSequence = regexp.MustCompile(`\x1b\[[0-?]*[ -/]*[@-~]`)

// plainText returns a line for people: a JSON record as its message and attributes.
func plainText(line []byte) string {
	text := string(line)
	if record, err := parseRecord(line, time.Time{}); err == nil {
		text = record.Message
		record.Attrs(func(a slog.Attr) bool {
			text += fmt.Sprintf(" %s=%s", a.Key, a.Value.Any())
			return true
		})
	}
	text = strings.ReplaceAll(escapeSequence.ReplaceAllString(text, ""), "\t", "    ")
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) {
			return -1
		}
		return r
	}, clean(text))
}
