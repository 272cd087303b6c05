package sdk

import (
	"context"
	"sync"

	"k8s.io/apimachinery/pkg/types"
)

// turns let one call at a time work on a deploy item. The host calls for one item at a time, too, but a call that it has
// cancelled may still be at work when the next one comes: a deployer need not return the moment its context ends.
type turns struct {
	mu    sync.Mutex
	items map[types.UID]*turn
}

// turn is whose turn it is with one item.
type turn struct {
	calls int           // that have the turn or wait for it
	free  chan struct{} // holds a token while nobody has the turn
}

func newTurns() *turns {
	return &turns{items: map[types.UID]*turn{}}
}

// take waits until the call may work on the item, and returns what ends its turn. The error is the cause of ctx's end.
func (t *turns) take(ctx context.Context, item types.UID) (end func(), err error) {
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
		return func() {
			mine.free <- struct{}{}
			t.leave(item, mine)
		}, nil
	case <-ctx.Done():
		t.leave(item, mine)
		return nil, context.Cause(ctx)
	}
}

func (t *turns) leave(item types.UID, mine *turn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if mine.calls--; mine.calls == 0 {
		delete(t.items, item)
	}
}
