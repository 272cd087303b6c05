package sdk

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

func TestTurnsOneCallAtATime(t *testing.T) {
	turns := newTurns()
	var inside [3]atomic.Int32
	var calls sync.WaitGroup
	for i := range 300 {
		calls.Go(func() {
			item := i % len(inside)
			end, err := turns.take(t.Context(), types.UID(rune('a'+item)), "call")
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
	if len(turns.items) != 0 {
		t.Errorf("%d items are remembered although nobody works on them", len(turns.items))
	}
}

func TestTurnsWaitingEndsWithItsContext(t *testing.T) {
	turns := newTurns()
	end, err := turns.take(t.Context(), "item", "call")
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := turns.take(ctx, "item", "call"); !errors.Is(err, over) {
		t.Errorf("expected the cause of the context's end, but found %v", err)
	}
	end()
	if end, err = turns.take(t.Context(), "item", "call"); err != nil {
		t.Errorf("the item is not free again: %v", err)
	} else {
		end()
	}
}

// A call that goes on although it was cancelled is overdue after a while, until it ends.
func TestTurnsOverdue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newTurns()
		expect := func(when, want string) {
			t.Helper()
			synctest.Wait()
			if got := turns.overdue(); got != want {
				t.Errorf("%s: expected %q to be overdue, but found %q", when, want, got)
			}
		}
		later, cancelLater := context.WithCancel(t.Context())
		endLater, err := turns.take(later, "another item", "another call")
		if err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		end, err := turns.take(ctx, "item", "call")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		expect("while it works", "")
		cancel()
		expect("when it was cancelled", "")
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
