package flight_test

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/chartsource/flight"
)

var errGone = errors.New("gone")

// resource counts who holds it.
type resource struct{ held atomic.Int64 }

func newGroup() *flight.Group[*resource] {
	return &flight.Group[*resource]{
		Share: func(r *resource) *resource { r.held.Add(1); return r },
		Drop:  func(r *resource) { r.held.Add(-1) },
	}
}

func made() *resource {
	r := &resource{}
	r.held.Add(1)
	return r
}

func TestShares(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		r, runs := made(), 0
		var callers sync.WaitGroup
		for range 10 {
			callers.Go(func() {
				got, err := g.Do(t.Context(), "a", func(context.Context) (*resource, error) {
					runs++
					time.Sleep(time.Second)
					return r, nil
				})
				if got != r || err != nil {
					t.Errorf("expected the resource, but found %v and %v", got, err)
				}
			})
		}
		callers.Wait()
		synctest.Wait()
		if runs != 1 || r.held.Load() != 10 {
			t.Errorf("expected one run and 10 shares, but found %d and %d", runs, r.held.Load())
		}
	})
}

func TestKeysAndTimesDoNotMix(t *testing.T) {
	t.Parallel()
	g := &flight.Group[int]{}
	for i, key := range []string{"a", "b", "a"} {
		if got, err := g.Do(t.Context(), key, func(context.Context) (int, error) { return i, nil }); got != i || err != nil {
			t.Errorf("expected %d, but found %d and %v", i, got, err)
		}
	}
}

func TestErrorIsShared(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		var callers sync.WaitGroup
		for range 3 {
			callers.Go(func() {
				got, err := g.Do(t.Context(), "a", func(context.Context) (*resource, error) {
					time.Sleep(time.Second)
					return nil, errGone
				})
				if got != nil || !errors.Is(err, errGone) {
					t.Errorf("expected the error, but found %v and %v", got, err)
				}
			})
		}
		callers.Wait()
	})
}

// TestWorkEndsWithItsLastCaller: it goes on when the first leaves, ends when nobody waits, and what comes of it then is dropped. Who comes
// after that begins anew.
func TestWorkEndsWithItsLastCaller(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGroup()
		r := made()
		var callers sync.WaitGroup
		ended := false
		work := func(ctx context.Context) (*resource, error) {
			<-ctx.Done()
			ended = true
			time.Sleep(time.Second)
			return r, nil
		}
		first, leaveFirst := context.WithCancelCause(t.Context())
		second, leaveSecond := context.WithCancelCause(t.Context())
		for _, ctx := range []context.Context{first, second} {
			callers.Go(func() {
				if _, err := g.Do(ctx, "a", work); !errors.Is(err, errGone) {
					t.Errorf("expected the cause, but found %v", err)
				}
			})
			synctest.Wait()
		}
		leaveFirst(errGone)
		synctest.Wait()
		if ended {
			t.Error("expected the work to go on for the second caller")
		}
		leaveSecond(errGone)
		callers.Wait()
		if got, err := g.Do(t.Context(), "a", func(context.Context) (*resource, error) { return made(), nil }); err != nil || got == r {
			t.Errorf("expected a call after that to begin anew, but found %v and %v", got, err)
		}
		time.Sleep(time.Minute)
		synctest.Wait()
		if !ended || r.held.Load() != 0 {
			t.Errorf("expected the work to end and its result to be dropped, but found %t and %d", ended, r.held.Load())
		}
	})
}

func TestPanicIsAnError(t *testing.T) {
	t.Parallel()
	g := newGroup()
	_, err := g.Do(t.Context(), "a", func(context.Context) (*resource, error) {
		panic("oops") //nolint:forbidigo // somebody else's mistake
	})
	var panicked *flight.PanicError
	if !errors.As(err, &panicked) || panicked.Error() != "panic: oops" || len(panicked.Stack) == 0 {
		t.Errorf("expected the panic as an error, but found %v", err)
	}
}

func TestValuesOfContextStay(t *testing.T) {
	t.Parallel()
	type key struct{}
	g := &flight.Group[any]{}
	ctx := context.WithValue(t.Context(), key{}, "here")
	if got, _ := g.Do(ctx, "a", func(ctx context.Context) (any, error) { return ctx.Value(key{}), nil }); got != "here" {
		t.Errorf("expected the values of the caller's context, but found %v", got)
	}
}
