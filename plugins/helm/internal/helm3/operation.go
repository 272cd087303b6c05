package helm3

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/action"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// step is the progress of an operation.
type step int

const (
	// preparing: the chart is loaded, and the target asked for its version, its kinds and the release.
	preparing step = iota
	// rendering: work on the chart alone, apart from lookups of templates.
	rendering
	// checking: the objects are checked for other owners.
	checking
	// changing: a revision is stored; objects can be created.
	changing
)

// operation carries one request out.
type operation struct {
	req      *helm.Request
	observer helm.Observer
	redactor *redact.Redactor
	// ctx ends with the call.
	ctx  context.Context
	stop context.CancelFunc
	// cleanup ends with the operation, later than ctx: for the writes to the release, and for reports.
	cleanup    context.Context
	endCleanup context.CancelFunc

	// These are nil without a kubeconfig.
	cluster *cluster
	history *history
	objects *objectClient
	config  *action.Configuration
	// attempt is the outcome of the earlier attempt; nil for none.
	attempt *attempt

	mu   sync.Mutex
	step step
	// cause is the first error of a step; Helm passes on no more than its text.
	cause error
	// state is the last line of Helm's log about a state in a wait, since the beginning of the failed step.
	state string
	// warnings has the unreported warnings about the chart and its values.
	warnings []string
	// templates has the templates of objects, by kind and name.
	templates map[string]string
}

// newOperation also makes Helm's clients, for a request with a kubeconfig. It sends no request.
func newOperation(ctx context.Context, c *Client, req *helm.Request, observer helm.Observer) (*operation, error) {
	o := &operation{req: req, observer: observer, redactor: redact.New(req.Values)}
	o.redactor.Publish(req.Release.Name, req.Release.Namespace)
	o.ctx, o.stop = context.WithCancel(target.WithBreaker(ctx))
	o.cleanup, o.endCleanup = context.WithCancel(target.WithBreaker(context.WithoutCancel(ctx)))
	if len(req.Kubeconfig) == 0 {
		return o, nil
	}
	if err := o.connect(c); err != nil {
		o.close()
		return nil, err
	}
	return o, nil
}

func (o *operation) close() {
	o.stop()
	o.endCleanup()
}

func (o *operation) enter(s step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.step = s
}

// failed records the first error of a step, and returns its argument.
func (o *operation) failed(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = err
	}
	return err
}

// progress reports the step begun now.
func (o *operation) progress(step, format string, args ...any) {
	o.mu.Lock()
	if o.cause == nil {
		o.state = ""
	}
	o.mu.Unlock()
	message := o.redactor.Hide(fmt.Sprintf(format, args...))
	if o.cleanup.Err() == nil {
		o.observer.Progress(step, message)
	}
}

// warn passes a warning on to the observer.
func (o *operation) warn(reason, format string, args ...any) {
	message := o.text(fmt.Sprintf(format, args...), maxMessage)
	if o.cleanup.Err() == nil {
		o.observer.Warning(reason, message)
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

// log is Helm's log about objects. The last state goes into an error.
func (o *operation) log(format string, args ...any) {
	line := o.text(fmt.Sprintf(format, args...), maxLine)
	o.mu.Lock()
	known := o.state == line // Helm repeats it in a wait
	if o.cause == nil && aState.MatchString(line) {
		o.state = line
	}
	o.mu.Unlock()
	if !known && o.cleanup.Err() == nil {
		o.observer.Log(line)
	}
}

// logSteps is Helm's log about its own steps and records; it explains no error.
func (o *operation) logSteps(format string, args ...any) {
	line := o.text(fmt.Sprintf(format, args...), maxLine)
	if o.cleanup.Err() == nil {
		o.observer.Log(line)
	}
}

// noteWarning keeps a warning about the chart or its values for tellWarnings: Helm repeats it at each reading.
func (o *operation) noteWarning(text string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.warnings) < maxNoted && !slices.Contains(o.warnings, text) {
		o.warnings = append(o.warnings, text)
	}
}

// tellWarnings reports the noted warnings, once and sorted. A retry has none: its chart is not deployed, and its first
// attempt has reported them.
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

// text makes one line of a text, without secret values.
func (o *operation) text(text string, most int) string {
	text = o.redactor.Hide(strings.Join(strings.Fields(text), " "))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
