// Package journal has the reports of an operation: progress, warnings and Helm's log for the observer, and the error in
// the end. None of them holds values.
package journal

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/redact"
)

// Step is the progress of an operation.
type Step int

// The steps.
const (
	// Preparing: the chart is loaded, and the target asked for its version, its kinds and the release.
	Preparing Step = iota
	// Rendering: work on the chart alone, apart from lookups of templates.
	Rendering
	// Checking: the objects are checked for other owners.
	Checking
	// Changing: a revision is stored; objects can be created.
	Changing
)

// Journal has the reports of one operation. Its methods may be called at any time, also at once.
type Journal struct {
	req      *helm.Request
	observer helm.Observer
	redactor *redact.Redactor
	// open ends with the operation; after that there are no reports.
	open context.Context

	mu   sync.Mutex
	step Step
	// cause is the first error of a step; Helm passes on no more than its text.
	cause error
	// state is the last line of Helm's log about a state in a wait, since the beginning of the failed step.
	state string
	// warnings has the unreported warnings about the chart and its values.
	warnings []string
	// templates has the templates of objects, by kind and name.
	templates map[string]string
}

// New returns the journal of a request until the end of open.
func New(open context.Context, req *helm.Request, observer helm.Observer) *Journal {
	return &Journal{req: req, observer: observer, redactor: helm.Hiding(req.Values, req.Release), open: open}
}

// Publish permits texts that are also values.
func (j *Journal) Publish(texts ...string) { j.redactor.Publish(texts...) }

// Learn keeps the data of Secrets out of texts.
func (j *Journal) Learn(objects []helm.Object) {
	for _, o := range objects {
		j.redactor.LearnObject(o.JSON)
	}
}

// Hide removes values from a text.
func (j *Journal) Hide(text string) string { return j.redactor.Hide(text) }

// Enter begins a step.
func (j *Journal) Enter(s Step) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.step = s
}

// SetTemplates sets the templates of objects, by kind and name, for advice in an error.
func (j *Journal) SetTemplates(templates map[string]string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.templates = templates
}

// Failed records the first error of a step, and returns its argument.
func (j *Journal) Failed(err error) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.cause == nil {
		j.cause = err
	}
	return err
}

// Progress reports the step begun now.
func (j *Journal) Progress(step, format string, args ...any) {
	j.mu.Lock()
	if j.cause == nil {
		j.state = ""
	}
	j.mu.Unlock()
	message := j.Hide(fmt.Sprintf(format, args...))
	if j.open.Err() == nil {
		j.observer.Progress(step, message)
	}
}

// Warn reports a warning.
func (j *Journal) Warn(reason, format string, args ...any) {
	message := j.text(fmt.Sprintf(format, args...), maxMessage)
	if j.open.Err() == nil {
		j.observer.Warning(reason, message)
	}
}

const (
	// maxLine and maxMessage bound texts, in bytes.
	maxLine    = 500
	maxMessage = 4000
	// maxWarnings bounds the number of reported warnings about a chart, maxWarning the bytes of each, and maxNoted the
	// number of counted ones.
	maxWarnings = 5
	maxWarning  = 200
	maxNoted    = 100
)

// aState matches Helm's log lines about states it waits for.
var aState = regexp.MustCompile(`^\w+ (?:is (?:not \w+|failed)|does not have [\w ]+): ` +
	`|^\S+: Jobs active: |^Pod \S+ (?:pending|running)$`)

// Log is Helm's log about objects. The last state goes into an error.
func (j *Journal) Log(format string, args ...any) {
	line := j.text(fmt.Sprintf(format, args...), maxLine)
	j.mu.Lock()
	known := j.state == line // Helm repeats it in a wait
	if j.cause == nil && aState.MatchString(line) {
		j.state = line
	}
	j.mu.Unlock()
	if !known && j.open.Err() == nil {
		j.observer.Log(line)
	}
}

// LogSteps is Helm's log about its own steps and records; it explains no error.
func (j *Journal) LogSteps(format string, args ...any) {
	line := j.text(fmt.Sprintf(format, args...), maxLine)
	if j.open.Err() == nil {
		j.observer.Log(line)
	}
}

// NoteWarning keeps a warning about the chart or its values for ReportWarnings: Helm repeats it at each reading.
func (j *Journal) NoteWarning(text string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if len(j.warnings) < maxNoted && !slices.Contains(j.warnings, text) {
		j.warnings = append(j.warnings, text)
	}
}

// ReportWarnings reports the noted warnings, once and sorted.
func (j *Journal) ReportWarnings() {
	j.mu.Lock()
	noted := j.warnings
	j.warnings = nil
	j.mu.Unlock()
	if len(noted) == 0 {
		return
	}
	for i, text := range noted {
		noted[i] = j.text(text, maxWarning)
	}
	slices.Sort(noted)
	j.Warn(helm.ReasonChart, "Helm warns: %s", object.Enumerate(slices.Compact(noted), "; ", maxWarnings))
}

// text makes one line of a text, without secret values.
func (j *Journal) text(text string, most int) string {
	text = j.Hide(strings.Join(strings.Fields(text), " "))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
