package targetclient

import (
	"context"
	"math"
	"slices"
	"sync"
	"time"

	"k8s.io/utils/clock"
)

// The defaults of RateLimit. They suit an API server that is shared with others.
const (
	DefaultRequestsPerSecond = 50
	DefaultBurst             = 100
)

type callKey struct{}

// ForCall returns a context whose requests belong to a call, which has any name of its own; that of the deploy item is a good one. When
// the requests to a target must wait for the rate limit, the calls take turns, so that one with hundreds of objects does not keep one with
// two waiting. Requests without a call take turns as if they were one.
//
// It is part of the context, because that goes to each request anyway, whoever makes it.
func ForCall(ctx context.Context, call string) context.Context {
	return context.WithValue(ctx, callKey{}, call)
}

func callOf(ctx context.Context) string {
	call, _ := ctx.Value(callKey{}).(string)
	return call
}

// limiter spaces the requests to one target: a token bucket, whose tokens go to the waiting calls in turn. It has no goroutine of its own;
// while somebody waits, a timer runs until the next token.
type limiter struct {
	clock     clock.WithDelayedExecution
	perSecond float64
	burst     float64

	mu       sync.Mutex
	tokens   float64
	refilled time.Time
	// turns are the calls with waiting requests, in the order in which they get tokens.
	turns   []*turn
	ticking bool
}

// turn is the place of a call, with its waiting requests.
type turn struct {
	call    string
	waiting []chan struct{}
}

// newLimiter returns a limiter with a full bucket. Without a positive rate there is no limit.
func newLimiter(clk clock.WithDelayedExecution, perSecond float64, burst int) *limiter {
	l := &limiter{clock: clk, perSecond: perSecond, burst: float64(max(burst, 1)), refilled: clk.Now()}
	l.tokens = l.burst
	return l
}

// wait returns nil when the request may be sent, or the cause of the context's end.
func (l *limiter) wait(ctx context.Context) error {
	if l.perSecond <= 0 {
		return context.Cause(ctx)
	}
	call := callOf(ctx)
	granted := l.join(call)
	select {
	case <-granted:
		return nil
	case <-ctx.Done():
		l.leave(call, granted)
		return context.Cause(ctx)
	}
}

func (l *limiter) join(call string) chan struct{} {
	granted := make(chan struct{})
	l.mu.Lock()
	defer l.mu.Unlock()
	at := l.find(call)
	if at < 0 {
		at = len(l.turns)
		l.turns = append(l.turns, &turn{call: call})
	}
	l.turns[at].waiting = append(l.turns[at].waiting, granted)
	l.grant()
	return granted
}

// leave is for who does not wait any more. A token that he got in the meantime goes to the next.
func (l *limiter) leave(call string, granted chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-granted:
		l.tokens++
		l.grant()
		return
	default:
	}
	at := l.find(call)
	t := l.turns[at]
	t.waiting = slices.DeleteFunc(t.waiting, func(c chan struct{}) bool { return c == granted })
	if len(t.waiting) == 0 {
		l.turns = slices.Delete(l.turns, at, at+1)
	}
}

func (l *limiter) find(call string) int {
	return slices.IndexFunc(l.turns, func(t *turn) bool { return t.call == call })
}

// grant gives out the tokens that there are. The mutex is held.
func (l *limiter) grant() {
	now := l.clock.Now()
	earned := max(0, now.Sub(l.refilled).Seconds()) * l.perSecond
	l.tokens, l.refilled = min(l.burst, l.tokens+earned), now
	for l.tokens >= 1 && len(l.turns) > 0 {
		l.tokens--
		first := l.turns[0]
		close(first.waiting[0])
		first.waiting = first.waiting[1:]
		l.turns = l.turns[1:]
		if len(first.waiting) > 0 {
			l.turns = append(l.turns, first)
		}
	}
	if len(l.turns) == 0 || l.ticking {
		return
	}
	l.ticking = true
	// Rounded up, or the timer would be a moment early and run twice.
	untilNext := math.Ceil((1 - l.tokens) / l.perSecond * float64(time.Second))
	l.clock.AfterFunc(time.Duration(untilNext), func() { go l.tick() })
}

func (l *limiter) tick() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.ticking = false
	l.grant()
}
