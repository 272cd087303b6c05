package observe

import (
	"context"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// Observer makes something of events. One that is a Tracer, too, is also told where they belong.
type Observer interface {
	// Observe hears of an event, which must not be changed. It must not block, and may be called by several at once. Those of one job come one
	// after the other, as far as they happen so.
	Observe(job Job, at time.Time, event Event)
}

// Tracer is an Observer that follows work where it is done.
type Tracer interface {
	Observer
	// Begin hears of work that begins, and returns the context to do it with. end hears of its end, and may be nil. The ID of the job is empty as
	// long as it is not known; work of that kind has no part in a trace.
	Begin(ctx context.Context, job Job, at time.Time, work Work) (_ context.Context, end func(at time.Time, done Done))
}

// Stream passes on what happens to Observers. A nil Stream has none.
type Stream struct {
	clock     clock.PassiveClock
	observers []Observer
}

// New returns a Stream to some observers, which are told in this order.
func New(now clock.PassiveClock, observers ...Observer) *Stream {
	return &Stream{clock: now, observers: observers}
}

// look is one look at an item, in a context.
type look struct {
	stream *Stream

	mu  sync.Mutex
	job Job
	// known: the events are told at once. Those before that wait until it is known which job they belong to.
	known bool
	early []told
}

type told struct {
	at    time.Time
	event Event
}

type contextKey struct{}

func lookOf(ctx context.Context) *look {
	l, _ := ctx.Value(contextKey{}).(*look)
	return l
}

// Look begins a look at an item, of which job says what is known, and returns its context. end must be called when it is over.
func (s *Stream) Look(ctx context.Context, job Job) (_ context.Context, end func()) {
	if s == nil {
		return ctx, func() {}
	}
	l := &look{stream: s, job: job}
	return context.WithValue(ctx, contextKey{}, l), func() { l.settle(job) }
}

// Tell tells of an event of now that is no part of a look.
func (s *Stream) Tell(job Job, event Event) {
	if s == nil {
		return
	}
	now := s.clock.Now()
	for _, o := range s.observers {
		o.Observe(job, now, event)
	}
}

// SetJob says which job a look is at. It may be called again for another one.
func SetJob(ctx context.Context, job Job) {
	if l := lookOf(ctx); l != nil {
		l.setJob(job)
	}
}

// Tell tells of an event of now.
func Tell(ctx context.Context, event Event) {
	if l := lookOf(ctx); l != nil {
		l.tell(l.stream.clock.Now(), event)
	}
}

// Begin tells that work begins, which is to be done with the context that it returns. end must be called at its end, once; it tells the result.
func Begin(ctx context.Context, work Work) (_ context.Context, end func(result string)) {
	l := lookOf(ctx)
	if l == nil {
		return ctx, func(string) {}
	}
	began := l.stream.clock.Now()
	var ends []func(time.Time, Done)
	for _, o := range l.stream.observers {
		if tracer, ok := o.(Tracer); ok {
			var end func(time.Time, Done)
			if ctx, end = tracer.Begin(ctx, l.current(), began, work); end != nil {
				ends = append(ends, end)
			}
		}
	}
	return ctx, func(result string) {
		now := l.stream.clock.Now()
		done := Done{Work: work, Result: result, Took: now.Sub(began)}
		for _, end := range ends {
			end(now, done)
		}
		l.tell(now, done)
	}
}

func (l *look) current() Job {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.job
}

func (l *look) setJob(job Job) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.job, l.known = job, true
	for _, t := range l.early {
		l.pass(t)
	}
	l.early = nil
}

// settle ends a look. What still waits belongs to no job.
func (l *look) settle(none Job) {
	l.mu.Lock()
	known := l.known
	l.mu.Unlock()
	if !known {
		l.setJob(none)
	}
}

func (l *look) tell(at time.Time, event Event) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := told{at: at, event: event}
	if !l.known {
		l.early = append(l.early, t)
		return
	}
	l.pass(t)
}

// pass tells all observers. look.mu must be held: it keeps the events of a job in order.
func (l *look) pass(t told) {
	for _, o := range l.stream.observers {
		o.Observe(l.job, t.at, t.event)
	}
}
