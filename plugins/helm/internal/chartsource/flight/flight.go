// Package flight shares work among those that want the same at the same time.
package flight

import (
	"context"
	"fmt"
	"runtime/debug"
	"sync"
)

// Group shares work by key. Its zero value is ready.
type Group[T any] struct {
	// Share makes, of a result, what each caller gets; nil for the result itself.
	Share func(T) T
	// Drop is called with a result once everybody has got theirs, or if nobody wants it any more; nil for nothing.
	Drop func(T)

	mu    sync.Mutex
	calls map[string]*call[T]
}

type call[T any] struct {
	done    chan struct{}
	cancel  context.CancelFunc
	waiting int
	value   T
	err     error
}

// Do returns what work returns. While it is at work, others that ask for the same key wait for the same result. The work goes on until the
// last of them has gone: its context has the values of the first caller's, and ends when nobody is waiting. A caller whose own context ends
// gets its cause at once.
//
// A panic of work is an error for all, because it would end the process otherwise: nobody could recover from it in a goroutine that
// belongs to no caller.
func (g *Group[T]) Do(ctx context.Context, key string, work func(context.Context) (T, error)) (T, error) {
	g.mu.Lock()
	c, ok := g.calls[key]
	if !ok {
		c = &call[T]{done: make(chan struct{})}
		var working context.Context
		working, c.cancel = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // end and leave call it
		if g.calls == nil {
			g.calls = map[string]*call[T]{}
		}
		g.calls[key] = c
		go g.run(working, key, c, work)
	}
	c.waiting++
	g.mu.Unlock()
	defer g.leave(key, c)
	var none T
	select {
	case <-ctx.Done():
		return none, context.Cause(ctx)
	case <-c.done:
		if c.err != nil || g.Share == nil {
			return c.value, c.err
		}
		return g.Share(c.value), nil
	}
}

func (g *Group[T]) run(ctx context.Context, key string, c *call[T], work func(context.Context) (T, error)) {
	value, err := protect(ctx, work)
	g.mu.Lock()
	defer g.mu.Unlock()
	c.value, c.err = value, err
	g.forget(key, c)
	if c.waiting == 0 {
		g.end(c)
	}
	close(c.done)
}

// leave drops the result after the last caller. Callers leave when they have their share, so it is not dropped under anybody's hands.
func (g *Group[T]) leave(key string, c *call[T]) {
	g.mu.Lock()
	defer g.mu.Unlock()
	c.waiting--
	if c.waiting > 0 {
		return
	}
	select {
	case <-c.done:
		g.end(c)
	default: // the result comes when nobody wants it any more
		g.forget(key, c)
		c.cancel()
	}
}

func (g *Group[T]) end(c *call[T]) {
	c.cancel()
	if c.err == nil && g.Drop != nil {
		g.Drop(c.value)
	}
}

// forget has the next caller begin anew. After everybody had left, the key may belong to other work already.
func (g *Group[T]) forget(key string, c *call[T]) {
	if g.calls[key] == c {
		delete(g.calls, key)
	}
}

func protect[T any](ctx context.Context, work func(context.Context) (T, error)) (value T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = &PanicError{Value: p, Stack: debug.Stack()}
		}
	}()
	return work(ctx)
}

// PanicError is a panic of shared work.
type PanicError struct {
	// Value that was panicked with.
	Value any
	// Stack of the goroutine, for the log.
	Stack []byte
}

// Error names the value, without the stack.
func (e *PanicError) Error() string { return fmt.Sprintf("panic: %v", e.Value) }
