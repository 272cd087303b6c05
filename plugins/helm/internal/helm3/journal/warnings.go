package journal

import (
	"log"
	"regexp"
	"strings"
	"sync"
)

// Helm warns of charts and their values in the standard logger of the process, among other lines and with values. Each
// line goes to the latest operation: a worker has one at a time.

var (
	// aWarning matches the beginnings of lines about charts and values. Others are about requests, or for authors of
	// charts.
	aWarning = regexp.MustCompile(`^(?:(?i:warning): |(Conflict: |key .* is table))`)
	// unknownHook matches the line about an object left out, with its annotation.
	unknownHook = regexp.MustCompile(`^info: skipping unknown hook: (.*)`)
	// ignoredReference matches a line written once in a process; see package render.
	ignoredReference = regexp.MustCompile(`^WARNING: unresolved URN`)
	// inBrackets matches the values in a line.
	inBrackets = regexp.MustCompile(`(?s) \(.*`)
)

// warningOf returns the warning in a line of Helm's, without values; empty for others.
func warningOf(line string) string {
	line = strings.TrimSpace(line)
	hook := unknownHook.FindStringSubmatch(line)
	switch {
	case hook != nil:
		return "an object is left out, since its annotation helm.sh/hook names an unknown hook: " + hook[1]
	case ignoredReference.MatchString(line) || !aWarning.MatchString(line):
		return ""
	default:
		return inBrackets.ReplaceAllString(aWarning.ReplaceAllString(line, "$1"), "")
	}
}

// library gets Helm's log lines.
var library libraryLog

type libraryLog struct {
	mu sync.Mutex
	// hear gets the warnings, in the name of the listener of this number; nil for none.
	hear     func(warning string)
	listener int
}

// HearLibrary has the journal note Helm's warnings until stop is called.
func (j *Journal) HearLibrary() (stop func()) { return library.goTo(j.NoteWarning) }

// goTo passes the warnings to hear until stop is called.
func (l *libraryLog) goTo(hear func(warning string)) (stop func()) {
	log.SetFlags(0)
	log.SetOutput(l)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.listener++
	l.hear = hear
	listener := l.listener
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.listener == listener {
			l.hear = nil
		}
	}
}

// Write gets one line at a time.
func (l *libraryLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := warningOf(string(line)); text != "" && l.hear != nil {
		l.hear(text)
	}
	return len(line), nil
}
