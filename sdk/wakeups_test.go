package sdk

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

// However items are added and taken, what was added since the last time is there, each item once, and is announced.
func TestWakeUpsAreCollapsedButNotLost(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		w := newWakeUps()
		pending := map[wakeUp]struct{}{}
		rt.Repeat(map[string]func(*rapid.T){
			"add": func(rt *rapid.T) {
				item := wakeUp{
					namespace: rapid.SampledFrom([]string{"a", "b"}).Draw(rt, "namespace"),
					name:      rapid.SampledFrom([]string{"x", "y", "z"}).Draw(rt, "name"),
				}
				w.add(item.namespace, item.name)
				pending[item] = struct{}{}
			},
			"take": func(rt *rapid.T) {
				select {
				case <-w.ready:
				default:
					if len(pending) > 0 {
						rt.Fatalf("%d items wait, but nobody is told", len(pending))
					}
					rt.Skip("nothing to take")
				}
				taken := w.take()
				if diff := cmp.Diff(pending, taken, cmp.AllowUnexported(wakeUp{})); diff != "" {
					rt.Fatalf("taken (-want +got):\n%s", diff)
				}
				pending = map[wakeUp]struct{}{}
			},
		})
	})
}

// While the host does not listen, an item that is woken again and again is sent once more, and the last time is not lost.
func TestForwardToSlowHost(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	w := newWakeUps()
	sending, release := make(chan string), make(chan struct{})
	forwarded := make(chan error, 1)
	go func() {
		forwarded <- w.forward(ctx, func(m *deployerv1.WatchResponse) error {
			sending <- m.GetNamespace() + "/" + m.GetName()
			<-release
			return nil
		})
	}()
	w.add("default", "item")
	first := <-sending // the host is slow now
	var waking sync.WaitGroup
	for range 10 {
		waking.Go(func() {
			for range 100 {
				w.add("default", "item")
			}
		})
	}
	waking.Wait()
	release <- struct{}{}
	second := <-sending
	if first != "default/item" || second != "default/item" {
		t.Errorf("sent %q, then %q", first, second)
	}
	release <- struct{}{}
	w.add("default", "end")
	if third := <-sending; third != "default/end" {
		t.Errorf("the item was sent a third time: %q", third)
	}
	release <- struct{}{}
	cancel()
	if err := <-forwarded; err != nil {
		t.Errorf("forward returned %v", err)
	}
}

// With items woken from several goroutines while they are sent, every last wake-up of an item is followed by a send of it.
func TestForwardConcurrently(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(rt *rapid.T) {
		goroutines := rapid.IntRange(1, 6).Draw(rt, "goroutines")
		items := rapid.IntRange(1, 5).Draw(rt, "items")
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		w := newWakeUps()
		sent := make(chan string)
		forwarded := make(chan error, 1)
		go func() {
			forwarded <- w.forward(ctx, func(m *deployerv1.WatchResponse) error {
				select {
				case sent <- m.GetName():
				case <-ctx.Done():
				}
				return nil
			})
		}()
		var waking sync.WaitGroup
		for range goroutines {
			waking.Go(func() {
				for i := range items * 10 {
					w.add("default", fmt.Sprint(i%items))
				}
			})
		}
		woken := make(chan struct{})
		go func() {
			waking.Wait()
			close(woken)
		}()
		for done := woken; done != nil; {
			select {
			case <-sent:
			case <-done:
				done = nil
			}
		}
		// The wake-ups until now may all have been sent. One more of each is certainly to come.
		missing := map[string]bool{}
		for i := range items {
			missing[fmt.Sprint(i)] = true
			w.add("default", fmt.Sprint(i))
		}
		for len(missing) > 0 {
			delete(missing, <-sent)
		}
		cancel()
		if err := <-forwarded; err != nil {
			rt.Errorf("forward returned %v", err)
		}
	})
}

func TestForwardEndsWhenTheHostIsGone(t *testing.T) {
	t.Parallel()
	gone := errors.New("gone")
	w := newWakeUps()
	w.add("default", "item")
	err := w.forward(t.Context(), func(*deployerv1.WatchResponse) error { return gone })
	if !errors.Is(err, gone) {
		t.Errorf("expected %v, but found %v", gone, err)
	}
}
