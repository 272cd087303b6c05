package sdk

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// endGrace is how long a call may go on after its context has ended. From then on the plugin is unhealthy.
const endGrace = 10 * time.Second

// turns let one call at a time work on a deploy item. The host calls for one item at a time, too, but a call that it has
// cancelled may still be at work when the next one comes: a deployer need not return the moment its context ends.
type turns struct {
	grace time.Duration // endGrace, but in tests

	mu    sync.Mutex
	items map[types.UID]*turn
}

// turn is whose turn it is with one item.
type turn struct {
	calls   int           // that have the turn or wait for it
	free    chan struct{} // holds a token while nobody has the turn
	current *holder       // of the turn; nil for nobody
}

// holder is a call that has a turn.
type holder struct {
	call      string    // for people
	cancelled time.Time // when its context ended; zero if it has not
}

func newTurns() *turns {
	return &turns{grace: endGrace, items: map[types.UID]*turn{}}
}

// take waits until the call may work on the item, and returns what ends its turn. call says for people
// which one it is. The error is the cause of ctx's end.
func (t *turns) take(ctx context.Context, item types.UID, call string) (end func(), err error) {
	t.mu.Lock()
	mine, ok := t.items[item]
	if !ok {
		mine = &turn{free: make(chan struct{}, 1)}
		mine.free <- struct{}{}
		t.items[item] = mine
	}
	mine.calls++
	t.mu.Unlock()

	select {
	case <-mine.free:
		return t.hold(ctx, item, mine, call), nil
	case <-ctx.Done():
		t.leave(item, mine)
		return nil, context.Cause(ctx)
	}
}

// hold begins a turn, and returns what ends it.
func (t *turns) hold(ctx context.Context, item types.UID, mine *turn, call string) (end func()) {
	h := &holder{call: call}
	t.mu.Lock()
	mine.current = h
	t.mu.Unlock()
	stop := context.AfterFunc(ctx, func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		h.cancelled = time.Now()
	})
	return func() {
		stop()
		t.mu.Lock()
		mine.current = nil
		t.mu.Unlock()
		mine.free <- struct{}{}
		t.leave(item, mine)
	}
}

// overdue is the call that goes on for the longest time although its context ended longer ago than the grace; empty if there
// is none.
func (t *turns) overdue() (call string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var first time.Time
	for _, turn := range t.items {
		h := turn.current
		if h == nil || h.cancelled.IsZero() || time.Since(h.cancelled) < t.grace {
			continue
		}
		if call == "" || h.cancelled.Before(first) {
			call, first = h.call, h.cancelled
		}
	}
	return call
}

func (t *turns) leave(item types.UID, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.calls--; mine.calls == 0 {
		delete(t.items, item)
	}
}
