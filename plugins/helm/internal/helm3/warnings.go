package helm3

import (
	"log"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// Helm warns of charts and their values in the standard logger of the process, among other lines and with values. Each
// line goes to the operation that has begun last: a worker has one at a time.

const (
	// maxWarnings bounds how many warnings are told, and maxWarning how many bytes of each.
	maxWarnings = 5
	maxWarning  = 200
	// maxNoted bounds how many are counted.
	maxNoted = 100
)

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
	of *operation // nil for none
}

// take has the process log to it.
func (l *libraryLog) take() {
	log.SetFlags(0)
	log.SetOutput(l)
}

// goTo has an operation hear the lines until stop is called.
func (l *libraryLog) goTo(o *operation) (stop func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.of = o
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.of == o {
			l.of = nil
		}
	}
}

// Write gets one line at a time.
func (l *libraryLog) Write(line []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if text := warningOf(string(line)); text != "" && l.of != nil {
		l.of.noteWarning(text)
	}
	return len(line), nil
}

// noteWarning keeps a warning about the chart or its values for tellWarnings. Helm repeats it each time that it reads
// them.
func (o *operation) noteWarning(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.warnings) < maxNoted && !slices.Contains(o.warnings, text) {
		o.warnings = append(o.warnings, text)
	}
}

// tellWarnings tells users what was noted, once, and in an order that is the same each time. The chart of a retry is
// not deployed, and the first attempt has told.
func (o *operation) tellWarnings() {
	o.mu.Lock()
	noted := o.warnings
	o.warnings = nil
	o.mu.Unlock()
	if len(noted) == 0 || o.attempt != nil {
		return
	}
	for i, text := range noted {
		noted[i] = o.text(text, maxWarning)
	}
	slices.Sort(noted)
	o.warn(helm.ReasonChart, "Helm warns: %s", object.Enumerate(slices.Compact(noted), "; ", maxWarnings))
}
