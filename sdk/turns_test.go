package sdk

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestTurnsOneCallAtATime(t *testing.T) {
	turns := newTurns()
	var inside [3]atomic.Int32
	var calls sync.WaitGroup
	for i := range 300 {
		calls.Go(func() {
			item := i % len(inside)
			end, err := turns.take(t.Context(), types.UID(rune('a'+item)))
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
	end, err := turns.take(t.Context(), "item")
	if err != nil {
		t.Fatal(err)
	}
	over := errors.New("over")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(over)
	if _, err := turns.take(ctx, "item"); !errors.Is(err, over) {
		t.Errorf("expected the cause of the context's end, but found %v", err)
	}
	end()
	if end, err = turns.take(t.Context(), "item"); err != nil {
		t.Errorf("the item is not free again: %v", err)
	} else {
		end()
	}
}
