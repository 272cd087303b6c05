package helm3

import (
	"log"
	"regexp"
	"strings"
	"sync"
)

// Helm warns of charts and their values in the standard logger of the process, among other lines and with values. Each
// line goes to the operation that has begun last: a worker has one at a time.

var (
	// aWarning is how lines about charts and values begin. Other lines are about requests, or for authors of charts.
	aWarning = regexp.MustCompile(`^(?:(?i:warning): |(Conflict: |key .* is table))`)
	// unknownHook is the line about an object that is left out; it has the annotation.
	unknownHook = regexp.MustCompile(`^info: skipping unknown hook: (.*)`)
	// ignoredReference is the line that Helm writes once in a process; see checkReferences.
	ignoredReference = regexp.MustCompile(`^WARNING: unresolved URN`)
	// inBrackets is where Helm writes values.
	inBrackets = regexp.MustCompile(`(?s) \(.*`)
)

// warningOf returns what a line of Helm's warns of, without values; empty for a line about something else.
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

// library is what Helm writes its lines to.
var library libraryLog

type libraryLog struct {
	mu sync.Mutex
	// hear gets the warnings; nil for nobody. It is that of the listener with this number.
	hear     func(warning string)
	listener int
}

// goTo has a function hear the warnings until stop is called.
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
