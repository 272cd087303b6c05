package serving

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

func TestOneCallAtATime(t *testing.T) {
	t.Parallel()
	running := NewRunningCalls()
	var inside [3]atomic.Int32
	var calls sync.WaitGroup
	for i := range 300 {
		calls.Go(func() {
			item := i % len(inside)
			end, err := running.Begin(t.Context(), types.UID(rune('a'+item)), "call")
			if err != nil {
				t.Error(err)
				return
			}
			if n := inside[item].Add(1); n != 1 {
				t.Errorf("%d calls work on item %d at the same time", n, item)
			}
			inside[item].Add(-1)
			end()
		})
	}
	calls.Wait()
	if len(running.items) != 0 {
		t.Errorf("%d items are remembered although nobody works on them", len(running.items))
	}
}

func TestWaitingForAnotherCallEnds(t *testing.T) {
	t.Parallel()
	running := NewRunningCalls()
	if _, err := running.Begin(t.Context(), "item", "call"); err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := running.Begin(ctx, "item", "call"); !errors.Is(err, over) {
		t.Errorf("expected the cause of the context's end, but found %v", err)
	}
}

// A call that goes on although it was cancelled is overdue after a while, until it ends.
func TestOverdue(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		running := NewRunningCalls()
		begin := func(item types.UID, name string) (cancel, end func()) {
			ctx, cancel := context.WithCancel(t.Context())
			end, err := running.Begin(ctx, item, name)
			if err != nil {
				t.Fatal(err)
			}
			return cancel, end
		}
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := running.overdue(); got != want {
				t.Errorf("%s: expected %q to be overdue, but found %q", when, want, got)
			}
		}
		cancelLater, endLater := begin("another item", "another call")
		cancel, end := begin("item", "call")
		time.Sleep(time.Hour)
		expect("while it works", "")
		cancel()
		time.Sleep(endGrace - time.Second)
		expect("within the grace", "")
		time.Sleep(time.Second)
		expect("after the grace", "call")
		cancelLater()
		time.Sleep(endGrace)
		expect("while it is overdue for longer", "call")
		end()
		expect("when the other one goes on", "another call")
		endLater()
		expect("when it has ended", "")
	})
}
