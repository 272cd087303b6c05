package watchdog

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/util/validation"
)

// Watch is a stream of wake-ups beside the calls of a plugin.
type Watch struct {
	cancel context.CancelFunc
	done   chan struct{}

	mu    sync.Mutex
	flaws []string
}

// Open opens the stream by a function. This one forwards the wake-ups until the end.
func (*Watchdog) Open(ctx context.Context, forward func(context.Context, func(namespace, name string)) error) *Watch {
	ctx, cancel := context.WithCancel(ctx)
	watch := &Watch{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(watch.done)
		err := forward(ctx, func(namespace, name string) { watch.woken(namespace, name) })
		if ctx.Err() == nil {
			watch.breaks("it must stay open, but it ended: %v", err)
		}
	}()
	return watch
}

func (w *Watch) breaks(format string, args ...any) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flaws = append(w.flaws, fmt.Sprintf(format, args...))
}

// End closes the stream, and returns the breaches until then. A nil Watch has none.
func (w *Watch) End() []string {
	if w == nil {
		return nil
	}
	w.cancel()
	<-w.done
	return w.flaws
}

// woken takes a wake-up. It may be of an item without a call: a deployer finds items of others in a shared account.
func (w *Watch) woken(namespace, name string) {
	if len(validation.IsDNS1123Label(namespace)) > 0 || len(validation.IsDNS1123Subdomain(name)) > 0 {
		w.breaks("it wakes namespace %.100q, name %.100q; expected those of a deploy item", namespace, name)
	}
}
