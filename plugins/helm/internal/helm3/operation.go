package helm3

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// step is how far an operation has come.
type step int

const (
	// preparing: the chart is loaded, and the target asked for its version, its kinds and the release.
	preparing step = iota
	// rendering is work for the chart alone, but for what templates look up.
	rendering
	// checking: whether the objects belong to others.
	checking
	// changing: a revision is stored, so that objects can be created.
	changing
)

// operation is one request that is carried out.
type operation struct {
	req      *helm.Request
	listener *listener
	redactor *redact.Redactor
	// ctx ends with the call.
	ctx  context.Context
	stop context.CancelFunc
	// cleanup ends later than ctx, so that a release can be written to when everything else has ended.
	cleanup    context.Context
	endCleanup context.CancelFunc

	// These are nil without a kubeconfig.
	cluster *cluster
	history *history
	objects *objectClient
	config  *action.Configuration
	// attempt is what an earlier attempt has settled; nil for none.
	attempt *attempt

	mu   sync.Mutex
	step step
	// cause is the first error of a step of Helm, which passes on no more than the text of it.
	cause error
	// state is the last line of Helm's log about a state that is waited for, since the step began that has failed.
	state string
	// warnings are those about the chart and its values that were not told yet.
	warnings []string
	// templates are where objects come from, by kind and name.
	templates map[string]string
}

// newOperation makes the clients that Helm needs as well. It sends no request.
func newOperation(ctx context.Context, c *Client, req *helm.Request, observer helm.Observer) (*operation, error) {
	o := &operation{req: req, listener: &listener{observer: observer}, redactor: redact.New(req.Values)}
	o.redactor.Publish(req.Release.Name, req.Release.Namespace)
	ended, stop := context.WithCancel(ctx)
	o.ctx, o.stop = target.WithBreaker(ended), stop
	var cancel context.CancelFunc
	o.cleanup, cancel = context.WithCancel(target.WithBreaker(context.WithoutCancel(ctx)))
	dismiss := context.AfterFunc(ended, func() { time.AfterFunc(gracePeriod+cleanupTime, cancel) })
	o.endCleanup = func() { dismiss(); cancel() }
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
	o.listener.close()
}

// enter notes that a step begins.
func (o *operation) enter(s step) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.step = s
}

// failed keeps why a step of Helm has failed, if it has and is the first one.
func (o *operation) failed(err error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.cause == nil {
		o.cause = err
	}
	return err
}

// progress reports what is being done from now on.
func (o *operation) progress(step, format string, args ...any) {
	o.mu.Lock()
	if o.cause == nil {
		o.state = ""
	}
	o.mu.Unlock()
	message := o.redactor.Hide(fmt.Sprintf(format, args...))
	o.listener.call(func(observer helm.Observer) { observer.Progress(step, message) })
}

// warn tells users of something.
func (o *operation) warn(reason, format string, args ...any) {
	message := o.text(fmt.Sprintf(format, args...), maxMessage)
	o.listener.call(func(observer helm.Observer) { observer.Warning(reason, message) })
}

const (
	// maxLine and maxMessage bound texts, in bytes.
	maxLine    = 500
	maxMessage = 4000
	// maxWarnings bounds how many warnings about a chart are told, maxWarning how many bytes of each, and maxNoted how
	// many are counted.
	maxWarnings = 5
	maxWarning  = 200
	maxNoted    = 100
)

// aState are the lines of Helm's log that say what it waits for.
var aState = regexp.MustCompile(`^\w+ (?:is (?:not \w+|failed)|does not have [\w ]+): ` +
	`|^\S+: Jobs active: |^Pod \S+ (?:pending|running)$`)

// log is Helm's log about objects. The last state goes with an error.
func (o *operation) log(format string, args ...any) {
	line := o.text(fmt.Sprintf(format, args...), maxLine)
	o.mu.Lock()
	known := o.state == line // it is repeated while Helm waits
	if o.cause == nil && aState.MatchString(line) {
		o.state = line
	}
	o.mu.Unlock()
	if !known {
		o.listener.call(func(observer helm.Observer) { observer.Log(line) })
	}
}

// logSteps is Helm's log about its own steps and records, which explains no error.
func (o *operation) logSteps(format string, args ...any) {
	line := o.text(fmt.Sprintf(format, args...), maxLine)
	o.listener.call(func(observer helm.Observer) { observer.Log(line) })
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

// text makes one line without values of a text.
func (o *operation) text(text string, most int) string {
	text = o.redactor.Hide(strings.Join(strings.Fields(text), " "))
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}

// listener calls the observer, one call at a time and none after the end.
type listener struct {
	observer helm.Observer

	mu   sync.Mutex
	over bool
}

func (l *listener) call(do func(helm.Observer)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.over {
		do(l.observer)
	}
}

func (l *listener) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.over = true
}
