package helm3

import (
	"context"
	"errors"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/action"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/plugins/internal/redact"
)

// operation is one request that is carried out.
type operation struct {
	// caller is the context of the call, and ctx ends with it or when the operation is given up.
	caller   context.Context
	ctx      context.Context
	giveUp   context.CancelFunc
	client   *Client
	req      *helm.Request
	audience *audience
	journal  *journal
	secrecy  *redact.Redactor
	clock    *clock

	// books ends later than ctx, so that a release can be written to when everything else has ended.
	books    context.Context
	endBooks context.CancelFunc

	mu        sync.Mutex
	abandoned bool
	causes    []cause
	// rendered are the objects of the chart, once Helm has rendered it.
	rendered []rendered

	// These are set by connect, before Helm begins.
	cluster *cluster
	history *history
	objects *objectClient
	config  *action.Configuration
}

// cause is an error that was met on the way. Helm makes texts of errors, in which they are found again.
type cause struct {
	text string
	err  error
}

func newOperation(ctx context.Context, c *Client, req *helm.Request, observer helm.Observer) *operation {
	o := &operation{caller: ctx, client: c, req: req, secrecy: redact.New(req.Values)}
	o.secrecy.Publish(req.Release.Name, req.Release.Namespace)
	o.ctx, o.giveUp = context.WithCancel(ctx)
	o.audience = newAudience(observer)
	o.journal = &journal{audience: o.audience, secrecy: o.secrecy}
	o.clock = newClock(req.Limits.RenderTime)
	var cancel context.CancelFunc
	o.books, cancel = context.WithCancel(context.WithoutCancel(ctx))
	stop := context.AfterFunc(ctx, func() {
		timer := time.AfterFunc(orderly+bookkeeping, cancel)
		context.AfterFunc(o.books, func() { timer.Stop() })
	})
	o.endBooks = func() { stop(); cancel() }
	return o
}

// stored returns the history, if it has come to that.
func (o *operation) stored() *history {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.history
}

// abandon keeps Helm, which is still busy, from doing anything that can be seen.
func (o *operation) abandon() {
	o.mu.Lock()
	o.abandoned = true
	h := o.history
	o.mu.Unlock()
	o.giveUp()
	if h != nil {
		h.seal()
	}
}

// store sets the history. It fails if Helm was abandoned, which a history that comes after that would not know.
func (o *operation) store(h *history) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.abandoned {
		return errOver
	}
	o.history = h
	return nil
}

// settle calls that of the history, if it has come to that.
func (o *operation) settle(succeeded bool) error {
	if h := o.stored(); h != nil {
		return h.settle(succeeded)
	}
	return nil
}

func (o *operation) close() {
	o.clock.stop()
	o.giveUp()
	o.endBooks()
	o.mu.Lock()
	c := o.cluster
	o.mu.Unlock()
	if c != nil {
		c.close()
	}
	o.audience.close()
}

// progress tells the observer what is being done.
func (o *operation) progress(step, message string) {
	o.audience.progress(step, o.secrecy.Hide(message))
}

// note keeps an error that Helm will make a text of.
func (o *operation) note(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	const most = 100
	if len(o.causes) < most {
		o.causes = append(o.causes, cause{text: err.Error(), err: err})
	}
}

// behind returns the errors that were noted and that err tells about, in the order in which they have happened.
func (o *operation) behind(err error) []error {
	o.mu.Lock()
	defer o.mu.Unlock()
	text := err.Error()
	var found []error
	for _, c := range o.causes {
		if strings.Contains(text, c.text) {
			found = append(found, c.err)
		}
	}
	return found
}

// templateOf returns the template of the object that a text is about; empty if that is not known.
func (o *operation) templateOf(text string) string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return findRendered(o.rendered, text)
}

// clock ends what takes too long. It can be started again after it was stopped; what was used up before does not count.
type clock struct {
	limit   time.Duration
	expired chan struct{}

	mu    sync.Mutex
	timer *time.Timer
	once  sync.Once
}

func newClock(limit time.Duration) *clock { return &clock{limit: limit, expired: make(chan struct{})} }

func (c *clock) start() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
	c.timer = time.AfterFunc(c.limit, func() { c.once.Do(func() { close(c.expired) }) })
}

func (c *clock) stop() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

var errOver = errors.New("the request is over")

// audience calls the observer, one call at a time and none after the end.
type audience struct {
	observer helm.Observer
	turn     chan struct{}
	over     chan struct{}
}

func newAudience(observer helm.Observer) *audience {
	return &audience{observer: observer, turn: make(chan struct{}, 1), over: make(chan struct{})}
}

// call waits for its turn and returns false if there is none any more.
func (a *audience) call(do func()) bool {
	select {
	case <-a.over:
		return false
	case a.turn <- struct{}{}:
	}
	defer func() { <-a.turn }()
	select {
	case <-a.over:
		return false
	default:
		do()
		return true
	}
}

func (a *audience) progress(step, message string) {
	a.call(func() { a.observer.Progress(step, message) })
}

func (a *audience) log(line string) { a.call(func() { a.observer.Log(line) }) }

func (a *audience) rendered(ctx context.Context, objects []helm.Object) (replaced []helm.Object, err error) {
	if !a.call(func() { replaced, err = a.observer.Rendered(ctx, objects) }) {
		return nil, errOver
	}
	return replaced, err
}

// close waits for a call that is being made, unless it takes long: then the observer does not heed its context.
func (a *audience) close() {
	close(a.over)
	select {
	case a.turn <- struct{}{}:
	case <-time.After(100 * time.Millisecond):
	}
}
