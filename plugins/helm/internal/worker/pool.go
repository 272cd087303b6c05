package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
)

const (
	defaultWorkers = 16
	defaultGrace   = 3 * time.Second
	// maxRequests is how many requests a worker carries out, maxIdle how long it waits for the next one.
	maxRequests = 200
	maxIdle     = 30 * time.Second
	// startDelay is how long a request waits for a worker that others use before another one is started, which takes
	// longer, and more of a processor, than a small chart does.
	startDelay = 50 * time.Millisecond
)

// Options are the settings of a Pool. The zero value stands for defaults.
type Options struct {
	// Log gets what workers write to their standard errors, at level debug. Defaults to none.
	Log *slog.Logger
	// Workers is how many processes there are at once. Defaults to 16.
	Workers int
	// Rendering is how many of them load and render charts at once, which is what takes memory and time; the others
	// talk to a target. Defaults to the number of processors, and is two at least then.
	Rendering int
	// Grace is how long a worker may take to leave off when its request is cancelled. Defaults to 3 s.
	Grace time.Duration
}

// Pool carries out requests in processes of their own, as many at once as it may; the others wait for a slot in the
// order in which they came. Processes that wait for the next request end after some time, with Close, and with the
// program. It is safe for concurrent use.
type Pool struct {
	log                 *slog.Logger
	grace               time.Duration
	maxIdle, startDelay time.Duration

	workers, rendering slots
	// returned gets something when there is another idle worker.
	returned chan struct{}

	mu     sync.Mutex
	idle   []*process
	closed bool
}

var _ helm.Helm = (*Pool)(nil)

// New returns a Pool. The program's main function must have called Main before.
func New(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Workers <= 0 {
		o.Workers = defaultWorkers
	}
	if o.Rendering <= 0 {
		o.Rendering = max(runtime.GOMAXPROCS(0), 2)
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	return &Pool{
		log: o.Log, grace: o.Grace, maxIdle: maxIdle, startDelay: startDelay,
		workers: make(slots, o.Workers), rendering: make(slots, o.Rendering), returned: make(chan struct{}, o.Workers),
	}
}

// Run carries a request out in a worker. Beyond what helm.Helm says: if the worker is done although ctx has ended
// meanwhile, its result is returned. A worker that has not succeeded has ended when Run returns.
func (p *Pool) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	rendered := func() {}
	if req.Action != helm.Uninstall {
		// Before the other slot: whoever waits for this one must not keep those waiting who do not need it.
		if err := p.rendering.take(ctx); err != nil {
			return nil, fmt.Errorf("wait for a worker that renders: %w", err)
		}
		rendered = sync.OnceFunc(p.rendering.giveBack)
		defer rendered()
	}
	if err := p.workers.take(ctx); err != nil {
		return nil, fmt.Errorf("wait for a worker: %w", err)
	}
	defer p.workers.giveBack()
	child, err := p.worker(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, fmt.Errorf("start a worker: %w", causeOf(ctx))
	case err != nil:
		return nil, crash(req, "no process could be started for it: "+err.Error())
	}
	child.requests++
	c := &call{req: req, observer: observer, process: child, rendered: rendered, grace: p.grace}
	last, err := c.run(ctx)
	child.stderr.logTo(p.log.With(
		"action", string(req.Action), "namespace", req.Release.Namespace, "release", req.Release.Name))
	if err != nil {
		child.end()
		return nil, err
	}
	child.busy = last.Busy
	if last.Last || ctx.Err() != nil || child.requests >= maxRequests || !p.keep(child) {
		child.end()
	}
	return last.Result, nil
}

// worker returns a worker that has waited for a request, or a new one. While more are at work than render, one of them
// may be done soon.
func (p *Pool) worker(ctx context.Context) (*process, error) {
	delay := time.NewTimer(p.startDelay)
	defer delay.Stop()
	for {
		child := p.takeIdle()
		switch {
		case child != nil && child.hasEnded(): // it was killed while it waited
			child.end()
			continue
		case child != nil:
			return child, nil
		case len(p.workers) <= cap(p.rendering):
			return start(ctx)
		}
		select {
		case <-p.returned:
		case <-delay.C:
			return start(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pool) takeIdle() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, child := range slices.Backward(p.idle) { // the newest, so that those that a burst has left expire
		if child.idle.Stop() {
			p.idle = slices.Delete(p.idle, i, i+1)
			return child
		}
	}
	return nil
}

// keep has a worker wait for the next request, unless the pool is closed.
func (p *Pool) keep(child *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.idle = append(p.idle, child)
	child.idle = time.AfterFunc(p.maxIdle, func() { p.drop(child) })
	select {
	case p.returned <- struct{}{}:
	default: // all who may wait are told already
	}
	return true
}

// drop ends a worker that has waited for too long.
func (p *Pool) drop(child *process) {
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(other *process) bool { return other == child })
	p.mu.Unlock()
	child.end()
}

// Close ends the workers that wait for a request, and has the others end after theirs. It blocks until the former have
// ended.
func (p *Pool) Close() {
	p.mu.Lock()
	waiting := p.idle
	p.idle, p.closed = nil, true
	p.mu.Unlock()
	for _, child := range waiting {
		child.idle.Stop()
		child.end()
	}
}

// slots are taken by callers in the order in which they come.
type slots chan struct{}

func (s slots) take(ctx context.Context) error {
	if ctx.Err() != nil { // even if there is a slot
		return causeOf(ctx)
	}
	select {
	case s <- struct{}{}:
		return nil
	case <-ctx.Done():
		return causeOf(ctx)
	}
}

func (s slots) giveBack() { <-s }

// causeOf is why a context has ended. It is the context's own error, too.
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}
