package serving

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// endGrace is how long a call may go on after its context has ended. From then on the plugin is unhealthy.
const endGrace = 10 * time.Second

// RunningCalls lets one call at a time work on each deploy item. The host calls for one item at a time, too, but a
// cancelled call may still be running when the next one comes, because a deployer need not return at once.
type RunningCalls struct {
	grace time.Duration // endGrace, but in tests

	mu    sync.Mutex
	items map[types.UID]*runningCall
}

type runningCall struct {
	name      string        // for people
	cancelled time.Time     // when its context ended; zero if it has not
	ended     chan struct{} // closed when it has returned
}

// NewRunningCalls returns the calls of a new server.
func NewRunningCalls() *RunningCalls {
	return &RunningCalls{grace: endGrace, items: map[types.UID]*runningCall{}}
}

// Begin waits until no other call works on the item, and returns the function for the end of this one. name describes
// the call for people. The error is the cause of ctx's end.
func (r *RunningCalls) Begin(ctx context.Context, item types.UID, name string) (end func(), err error) {
	call := &runningCall{name: name, ended: make(chan struct{})}
	for before := r.add(item, call); before != nil; before = r.add(item, call) {
		select {
		case <-before.ended:
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	stop := context.AfterFunc(ctx, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		call.cancelled = time.Now()
	})
	return func() {
		stop()
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.items, item)
		close(call.ended)
	}, nil
}

// add adds the call, or returns another one for the item.
func (r *RunningCalls) add(item types.UID, call *runningCall) (other *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.items[item]; ok {
		return other
	}
	r.items[item] = call
	return nil
}

// overdue names the call with the longest time since its cancellation, if that exceeds the grace; empty for none.
func (r *RunningCalls) overdue() (name string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var first time.Time
	for _, call := range r.items {
		if call.cancelled.IsZero() || time.Since(call.cancelled) < r.grace {
			continue
		}
		if name == "" || call.cancelled.Before(first) {
			name, first = call.name, call.cancelled
		}
	}
	return name
}
