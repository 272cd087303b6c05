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
	defaultGrace = 3 * time.Second
	// maxRequests bounds the requests of a worker, maxIdle its wait for the next one.
	maxRequests = 200
	maxIdle     = 30 * time.Second
	// startDelay is the wait of a request for a busy worker before a new one is started: about as long as a start takes,
	// which also costs more CPU time than a small chart. So a few workers serve a target that answers fast, and a slow
	// one gets more of them, one after the other.
	startDelay = 100 * time.Millisecond
)

// Options are the settings of a Pool.
type Options struct {
	// Log gets the workers' standard errors, at level debug. Defaults to none.
	Log *slog.Logger
	// Workers is the maximum number of processes. Positive.
	Workers int
	// Rendering is the maximum number of processes at work on charts, from loading to rendering: that takes memory and
	// time, while the others talk to a target. Defaults to the number of processors, and is two at least then.
	Rendering int
	// Grace is a worker's time to stop after the cancellation of its request. Defaults to 3 s.
	Grace time.Duration
}

// Pool carries out requests in processes of their own, up to a number at once; the others wait for a slot in the order
// of their arrival. Idle processes end after some time, and with the program. It is safe for concurrent use.
type Pool struct {
	log                 *slog.Logger
	grace               time.Duration
	maxIdle, startDelay time.Duration

	workers, rendering slots
	// turn is taken by the request that waits for startDelay, and by its start.
	turn slots
	// returned receives a value for a new idle worker.
	returned chan struct{}

	mu   sync.Mutex
	idle []*process
}

var _ helm.Helm = (*Pool)(nil)

// New returns a Pool. The program's main function must have called Main before.
func New(o Options) *Pool {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Rendering <= 0 {
		o.Rendering = max(runtime.GOMAXPROCS(0), 2)
	}
	if o.Grace <= 0 {
		o.Grace = defaultGrace
	}
	return &Pool{
		log: o.Log, grace: o.Grace, maxIdle: maxIdle, startDelay: startDelay,
		workers: make(slots, o.Workers), rendering: make(slots, o.Rendering), turn: make(slots, 1),
		returned: make(chan struct{}, o.Workers),
	}
}

// Run carries a request out in a worker. Beyond the contract of helm.Helm: the result of a finished worker is returned
// even if ctx has ended meanwhile. After a failure the worker has ended at the return of Run.
func (p *Pool) Run(ctx context.Context, req *helm.Request, observer helm.Observer) (*helm.Result, error) {
	rendered := func() {}
	if req.Action != helm.Uninstall {
		// Before the other slot: a wait for this one must not hold up requests without it.
		if err := p.rendering.take(ctx); err != nil {
			return nil, fmt.Errorf("wait for a worker to render: %w", err)
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
		return nil, crash(req, "start a process: "+err.Error())
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
	if last.Last || ctx.Err() != nil || child.requests >= maxRequests {
		child.end()
	} else {
		p.keep(child)
	}
	return last.Result, nil
}

// worker returns an idle worker, or a new one. While more are busy than render, one of them may be done soon.
func (p *Pool) worker(ctx context.Context) (*process, error) {
	turn := p.turn
	var delay <-chan time.Time // nil until it is the turn of this request
	for {
		child := p.takeIdle()
		switch {
		case child != nil && child.hasEnded(): // killed while idle
			child.end()
			continue
		case child != nil:
			return child, nil
		case len(p.workers) <= cap(p.rendering):
			return start(ctx)
		}
		select {
		case <-p.returned:
		case turn <- struct{}{}:
			defer p.turn.giveBack()
			turn, delay = nil, time.After(p.startDelay)
		case <-delay:
			return start(ctx)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (p *Pool) takeIdle() *process {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, child := range slices.Backward(p.idle) { // the newest, so those left by a burst expire
		if child.idle.Stop() {
			p.idle = slices.Delete(p.idle, i, i+1)
			return child
		}
	}
	return nil
}

// keep has a worker wait for the next request.
func (p *Pool) keep(child *process) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, child)
	child.idle = time.AfterFunc(p.maxIdle, func() { p.drop(child) })
	select {
	case p.returned <- struct{}{}:
	default: // there is a value for each possible waiter already
	}
}

// drop ends a worker idle for too long.
func (p *Pool) drop(child *process) {
	p.mu.Lock()
	p.idle = slices.DeleteFunc(p.idle, func(other *process) bool { return other == child })
	p.mu.Unlock()
	child.end()
}

// slots are taken by callers in the order of their arrival.
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

// causeOf returns the cause of a context's end; it is the context's own error, too.
func causeOf(ctx context.Context) error {
	cause := context.Cause(ctx)
	if errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("%w: %w", ctx.Err(), cause)
}
