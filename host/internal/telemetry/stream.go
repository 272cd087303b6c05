package telemetry

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Observer receives events.
type Observer interface {
	// Observe receives an event, and must not change it. It must not block, and may be called concurrently. The events of
	// one job come in their order.
	Observe(job Job, at time.Time, event Event)
}

// Stream passes events on to Observers. A nil Stream has none.
type Stream struct {
	clock     clock.PassiveClock
	tracer    *Tracer
	observers []Observer
}

// NewStream returns a Stream to a Tracer, nil for none, and to observers. They get each event in this order.
func NewStream(now clock.PassiveClock, tracer *Tracer, observers ...Observer) *Stream {
	return &Stream{clock: now, tracer: tracer, observers: observers}
}

func (s *Stream) send(job Job, o timed) {
	for _, observer := range s.observers {
		observer.Observe(job, o.at, o.event)
	}
	if ended, ok := o.event.(Ended); ok {
		s.tracer.ended(job, o.at, ended)
	}
}

// Report sends an event outside of a reconcile, with the current time.
func (s *Stream) Report(job Job, event Event) {
	if s != nil {
		s.send(job, timed{at: s.clock.Now(), event: event})
	}
}

// timed is an event with its time.
type timed struct {
	at    time.Time
	event Event
}

// reconcile is one reconcile of an item, in a context.
type reconcile struct {
	stream *Stream

	// mu also keeps the events of a job in order.
	mu  sync.Mutex
	job Job
	// jobKnown: events are sent at once. Earlier events wait for their job.
	jobKnown bool
	early    []timed
}

type reconcileKey struct{}

func reconcileOf(ctx context.Context) *reconcile {
	r, _ := ctx.Value(reconcileKey{}).(*reconcile)
	return r
}

// StartReconcile returns the context of a reconcile of an item; job has its known fields. Call end after the reconcile:
// it sends the events that still wait for a job.
func (s *Stream) StartReconcile(ctx context.Context, job Job) (_ context.Context, end func()) {
	if s == nil {
		return ctx, func() {}
	}
	r := &reconcile{stream: s, job: job}
	return context.WithValue(ctx, reconcileKey{}, r), func() { r.setJob(r.current()) }
}

// SetJob sets the job of a reconcile. It may be called again for another one.
func SetJob(ctx context.Context, job Job) {
	if r := reconcileOf(ctx); r != nil {
		r.setJob(job)
	}
}

// Report sends an event of a reconcile, with the current time.
func Report(ctx context.Context, event Event) {
	if r := reconcileOf(ctx); r != nil {
		r.report(timed{at: r.stream.clock.Now(), event: event})
	}
}

// Begin starts the measurement of work, and returns the context of the work. Call end once, with the result.
func Begin(ctx context.Context, work Work) (_ context.Context, end func(result string)) {
	r := reconcileOf(ctx)
	if r == nil {
		return ctx, func(string) {}
	}
	began := r.stream.clock.Now()
	ctx, endSpan := r.stream.tracer.startSpan(ctx, r.current(), began, work)
	return ctx, func(result string) {
		now := r.stream.clock.Now()
		done := Done{Work: work, Result: result, Took: now.Sub(began)}
		endSpan(now, done)
		r.report(timed{at: now, event: done})
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
	r.job, r.jobKnown = job, true
	for _, o := range r.early {
		r.stream.send(job, o)
	}
	r.early = nil
}

func (r *reconcile) report(o timed) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.jobKnown {
		r.stream.send(r.job, o)
	} else {
		r.early = append(r.early, o)
	}
}
