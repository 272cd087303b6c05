package targetclient

import (
	"context"
	"fmt"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

const (
	// patience is how long a target may leave all requests unanswered before it is asked whether it is there.
	patience = 5 * time.Second
	// probeTimeout is how long it may take to answer that.
	probeTimeout = 5 * time.Second
	// firstPause and longestPause are between the probes of a silent target. Each pause is twice as long as the one before.
	firstPause   = 2 * time.Second
	longestPause = 30 * time.Second
)

// NoAnswerError says that a target did not answer. It comes as the cause of a *url.Error, as other errors of connections do.
type NoAnswerError struct {
	// After is for how long there was no answer.
	After time.Duration
	// Err says why the last attempt to reach the target failed; nil if it was not answered either.
	Err error
}

// Error says for how long there was no answer.
func (e *NoAnswerError) Error() string {
	text := fmt.Sprintf("no answer for %s", e.After.Round(time.Second))
	if e.Err != nil {
		text += ", last: " + e.Err.Error()
	}
	return text
}

// Unwrap returns why the last attempt failed.
func (e *NoAnswerError) Unwrap() error { return e.Err }

// Timeout tells that time ran out, for package net and those who ask the same of its errors.
func (e *NoAnswerError) Timeout() bool { return true }

// pulse watches over the requests to one target. When none of them is answered for a while it probes the target. If that is not answered
// either, the target is silent: all requests are cancelled, and new ones fail at once, until a probe is answered. A single slow request,
// such as one that waits for a webhook, does no harm, as probes are answered beside it.
//
// No goroutine stays when there are no requests. A silent target is probed when somebody asks for it.
type pulse struct {
	clock clock.WithDelayedExecution
	// probe asks the target for a sign of life. After a probe that failed it must not use the connections that there are.
	probe func(ctx context.Context, reconnect bool) error

	mu       sync.Mutex
	requests map[*request]struct{}
	// awaited is how many of the requests wait for the target.
	awaited int
	// quietSince is the time of the last answer, or when the first of the awaited requests was sent if that is later.
	quietSince time.Time
	// heardAt is the time of the last answer alone.
	heardAt time.Time
	// armed: a timer runs that looks whether the target is quiet.
	armed   bool
	probing bool

	silent bool
	// failure is that of the last probe, which ended at probed; the next comes after the pause.
	failure error
	probed  time.Time
	pause   time.Duration
}

// request is one under way.
type request struct {
	cancel  context.CancelCauseFunc
	awaited bool
}

func newPulse(clk clock.WithDelayedExecution, probe func(ctx context.Context, reconnect bool) error) *pulse {
	return &pulse{clock: clk, probe: probe, requests: map[*request]struct{}{}}
}

// begin takes a request in. The error is a *NoAnswerError, if the target is silent; otherwise end must be called.
func (p *pulse) begin(cancel context.CancelCauseFunc) (*request, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.silent {
		if now := p.clock.Now(); !p.probing && now.Sub(p.probed) >= p.pause {
			p.startProbe(now)
		}
		return nil, p.noAnswer()
	}
	r := &request{cancel: cancel}
	p.requests[r] = struct{}{}
	return r, nil
}

// sent says that the request waits for the target from now on.
func (p *pulse) sent(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r.awaited = true
	p.awaited++
	if p.awaited == 1 {
		p.quietSince = p.clock.Now()
	}
	p.arm()
}

// heard says that something came from the target.
func (p *pulse) heard() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.quietSince = p.clock.Now()
	p.heardAt = p.quietSince
}

// settled says that the request does not wait for the target any more, though it may go on.
func (p *pulse) settled(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(r)
}

// end takes the request out. It may be called several times.
func (p *pulse) end(r *request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.settle(r)
	delete(p.requests, r)
}

func (p *pulse) settle(r *request) {
	if r.awaited {
		r.awaited = false
		p.awaited--
	}
}

// arm sets the timer, if there is something to look for. The mutex is held.
func (p *pulse) arm() {
	if p.armed || p.awaited == 0 || p.probing || p.silent {
		return
	}
	p.armed = true
	p.clock.AfterFunc(max(0, patience-p.clock.Since(p.quietSince)), func() { go p.look() })
}

func (p *pulse) look() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.armed = false
	now := p.clock.Now()
	if p.awaited > 0 && !p.probing && !p.silent && now.Sub(p.quietSince) >= patience {
		p.startProbe(now)
		return
	}
	p.arm()
}

// startProbe starts the one probe at a time. The mutex is held.
func (p *pulse) startProbe(now time.Time) {
	p.probing = true
	go p.runProbe(now, p.silent)
}

// runProbe ends within probeTimeout, if the probe obeys its context.
func (p *pulse) runProbe(started time.Time, reconnect bool) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := p.clock.AfterFunc(probeTimeout, cancel)
	defer timer.Stop()
	err := p.probe(ctx, reconnect)
	if err != nil && ctx.Err() != nil {
		err = &NoAnswerError{After: probeTimeout}
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	p.probing, p.probed = false, p.clock.Now()
	answeredMeanwhile := !p.silent && p.heardAt.After(started)
	switch {
	case err == nil, answeredMeanwhile:
		p.silent, p.failure = false, nil
		p.quietSince = p.probed
		p.arm()
	case p.silent:
		p.failure, p.pause = err, min(2*p.pause, longestPause)
	default:
		p.silent, p.failure, p.pause = true, err, firstPause
		for r := range p.requests {
			r.cancel(p.noAnswer())
		}
	}
}

// noAnswer returns the error of a silent target. The mutex is held.
func (p *pulse) noAnswer() *NoAnswerError {
	e := &NoAnswerError{After: p.clock.Since(p.quietSince)}
	if _, unanswered := p.failure.(*NoAnswerError); !unanswered { //nolint:errorlint // set unwrapped by runProbe
		e.Err = p.failure
	}
	return e
}
