package telemetry

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Observer makes something of events.
type Observer interface {
	// Observe receives an event, which must not be changed. It must not block, and may be called concurrently. The
	// events of one job come one after the other, as far as they happen so.
	Observe(job Job, at time.Time, event Event)
}

// Stream passes on what happens to Observers. A nil Stream has none.
type Stream struct {
	clock     clock.PassiveClock
	tracer    *Tracer
	observers []Observer
}

// NewStream returns a Stream to a Tracer, nil for none, and to some observers, which get each event in this order.
func NewStream(now clock.PassiveClock, tracer *Tracer, observers ...Observer) *Stream {
	return &Stream{clock: now, tracer: tracer, observers: observers}
}

func (s *Stream) send(job Job, o observed) {
	for _, observer := range s.observers {
		observer.Observe(job, o.at, o.event)
	}
	if ended, ok := o.event.(Ended); ok {
		s.tracer.ended(job, o.at, ended)
	}
}

// Report passes on an event of now that is no part of a reconcile.
func (s *Stream) Report(job Job, event Event) {
	if s != nil {
		s.send(job, observed{at: s.clock.Now(), event: event})
	}
}

// observed is an event and its time.
type observed struct {
	at    time.Time
	event Event
}

// reconcile is one reconcile of an item, in a context.
type reconcile struct {
	stream *Stream

	mu  sync.Mutex // also keeps the events of a job in order
	job Job
	// known: the events are passed on at once. Those before that wait until it is known which job they belong to.
	known bool
	early []observed
}

type reconcileKey struct{}

func reconcileOf(ctx context.Context) *reconcile {
	r, _ := ctx.Value(reconcileKey{}).(*reconcile)
	return r
}

// StartReconcile begins a reconcile of an item, of which job says what is known, and returns its context. end must be
// called when it is over: what waits for a job then belongs to none.
func (s *Stream) StartReconcile(ctx context.Context, job Job) (_ context.Context, end func()) {
	if s == nil {
		return ctx, func() {}
	}
	r := &reconcile{stream: s, job: job}
	return context.WithValue(ctx, reconcileKey{}, r), func() { r.setJob(r.current()) }
}

// SetJob says which job a reconcile is for. It may be called again for another one.
func SetJob(ctx context.Context, job Job) {
	if r := reconcileOf(ctx); r != nil {
		r.setJob(job)
	}
}

// Report passes on an event of now.
func Report(ctx context.Context, event Event) {
	if r := reconcileOf(ctx); r != nil {
		r.report(observed{at: r.stream.clock.Now(), event: event})
	}
}

// Begin reports that work begins, which is to be done with the context that it returns. end must be called at its
// end, once, with the result.
func Begin(ctx context.Context, work Work) (_ context.Context, end func(result string)) {
	r := reconcileOf(ctx)
	if r == nil {
		return ctx, func(string) {}
	}
	began := r.stream.clock.Now()
	ctx, endSpan := r.stream.tracer.begin(ctx, r.current(), began, work)
	return ctx, func(result string) {
		now := r.stream.clock.Now()
		done := Done{Work: work, Result: result, Took: now.Sub(began)}
		endSpan(now, done)
		r.report(observed{at: now, event: done})
	}
}

func (r *reconcile) current() Job {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.job
}

func (r *reconcile) setJob(job Job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.job, r.known = job, true
	for _, o := range r.early {
		r.stream.send(job, o)
	}
	r.early = nil
}

func (r *reconcile) report(o observed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.known {
		r.stream.send(r.job, o)
	} else {
		r.early = append(r.early, o)
	}
}
