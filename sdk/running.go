package sdk

import (
	"context"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// endGrace is how long a call may go on after its context has ended. From then on the plugin is unhealthy.
const endGrace = 10 * time.Second

// runningCalls has the call that works on each deploy item, one at a time. The host calls for one item at a time,
// too, but a call that it has cancelled may still be running when the next one comes: a deployer need not return the
// moment its context ends.
type runningCalls struct {
	grace time.Duration // endGrace, but in tests

	mu    sync.Mutex
	items map[types.UID]*runningCall
}

type runningCall struct {
	name      string        // for people
	cancelled time.Time     // when its context ended; zero if it has not
	ended     chan struct{} // closed when it has returned
}

func newRunningCalls() *runningCalls {
	return &runningCalls{grace: endGrace, items: map[types.UID]*runningCall{}}
}

// begin waits until no other call works on the item, and returns what ends this one. name says for people which call
// it is. The error is the cause of ctx's end.
func (r *runningCalls) begin(ctx context.Context, item types.UID, name string) (end func(), err error) {
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

// add adds the call unless another one works on the item, which it returns then.
func (r *runningCalls) add(item types.UID, call *runningCall) (other *runningCall) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if other, ok := r.items[item]; ok {
		return other
	}
	r.items[item] = call
	return nil
}

// overdue names the call that goes on for the longest time although its context ended longer ago than the grace;
// empty if there is none.
func (r *runningCalls) overdue() (name string) {
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
