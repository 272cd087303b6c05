package controller

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func slotKey(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(n)} }

func TestSlots(t *testing.T) {
	s := newSlots(1, time.Now)
	if !s.take(slotKey(1), own) {
		t.Fatal("a free slot was not given")
	}
	for n := 2; n <= 4; n++ {
		at := own
		if n == 4 {
			at = underWay
		}
		if s.take(slotKey(n), at) {
			t.Fatalf("item %d got a slot that is taken", n)
		}
	}
	if s.take(slotKey(2), own) {
		t.Fatal("whoever asks again does not get a slot for that")
	}
	if next := s.settle(slotKey(1), false); next != nil {
		t.Errorf("nobody's turn has come, but %v are called", next)
	}
	s.giveBack()
	var order []types.NamespacedName
	for next := s.settle(slotKey(1), false); len(next) > 0; {
		order = append(order, next...)
		if len(order) == 1 && s.take(slotKey(9), underWay) {
			t.Fatal("a slot that is kept for somebody was taken by another")
		}
		if !s.take(next[0], own) {
			t.Fatalf("%v was called and got no slot", next[0])
		}
		s.giveBack()
		next = s.settle(next[0], true)
	}
	if diff := cmp.Diff([]types.NamespacedName{slotKey(4), slotKey(9), slotKey(2), slotKey(3)}, order); diff != "" {
		t.Errorf("jobs under way first, then in the order of arrival (-want +got):\n%s", diff)
	}
}

func TestATurnThatIsNotUsedGoesOn(t *testing.T) {
	s := newSlots(1, time.Now)
	s.take(slotKey(1), own)
	s.take(slotKey(2), own)
	s.take(slotKey(3), own)
	s.giveBack()
	if next := s.settle(slotKey(1), false); !slices.Equal(next, []types.NamespacedName{slotKey(2)}) {
		t.Fatalf("expected the turn of 2, but found %v", next)
	}
	if next := s.settle(slotKey(2), true); !slices.Equal(next, []types.NamespacedName{slotKey(3)}) { // 2 has nothing to do any more
		t.Fatalf("expected the turn of 3, but found %v", next)
	}
	if next := s.settle(slotKey(3), true); next != nil || !s.take(slotKey(4), own) {
		t.Fatal("expected the slot to be free")
	}
}

// TestOrderOfTurns: own jobs before those that other replicas come first for, and of the latter those first that this
// one is the next best for, the last one first.
func TestOrderOfTurns(t *testing.T) {
	s := newSlots(1, time.Now)
	s.take(slotKey(0), own)
	s.standBy(slotKey(1), placeOf(2))
	s.standBy(slotKey(2), placeOf(1))
	s.take(slotKey(3), own)
	s.standBy(slotKey(4), placeOf(1))
	s.take(slotKey(5), underWay)
	s.take(slotKey(6), own)
	s.standBy(slotKey(7), placeOf(99))
	var order []types.NamespacedName
	s.giveBack()
	for next := s.settle(slotKey(0), false); len(next) > 0; next = s.settle(next[0], true) {
		order = append(order, next...)
	}
	want := []types.NamespacedName{slotKey(5), slotKey(3), slotKey(6), slotKey(4), slotKey(2), slotKey(1), slotKey(7)}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of turns (-want +got):\n%s", diff)
	}
}

// TestStandBy: an item that another replica comes first for is looked at when there is a slot that it could have, and
// else after a while, so that it does not depend on the other one.
func TestStandBy(t *testing.T) {
	now := time.Now()
	s := newSlots(1, func() time.Time { return now })
	if !s.standBy(slotKey(1), firstOther) {
		t.Error("there is a free slot, but the item is not looked at")
	}
	s.take(slotKey(2), own)
	if s.standBy(slotKey(1), firstOther) {
		t.Error("there is no free slot, but the item is looked at")
	}
	if now = now.Add(maxStandBy - 1); s.standBy(slotKey(1), firstOther) {
		t.Error("the item is looked at before its time")
	}
	if now = now.Add(1); !s.standBy(slotKey(1), firstOther) {
		t.Error("the item has waited for long, but is not looked at")
	}
	if s.take(slotKey(1), firstOther) || s.standBy(slotKey(3), firstOther) {
		t.Error("a slot was given that is taken")
	}
}

// TestSlotsNeverLeak: never more calls than slots, nobody waits while a slot is free, and all get their turn.
func TestSlotsNeverLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newSlots(size, time.Now)
		busy, called := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		call := func(next []types.NamespacedName) {
			for _, key := range next {
				if called[key] {
					t.Fatalf("%v is called twice", key)
				}
				called[key] = true
			}
		}
		end := func(key types.NamespacedName) {
			delete(busy, key)
			s.giveBack()
			call(s.settle(key, false))
		}
		look := func(key types.NamespacedName, takes bool) {
			if busy[key] {
				return // an item is looked at by one worker at a time
			}
			turn := s.hasTurn(key)
			if turn != called[key] {
				t.Fatalf("it is the turn of %v: %t", key, turn)
			}
			delete(called, key)
			at := place(rapid.IntRange(int(underWay), int(lastOther)).Draw(t, "place"))
			if takes && (at < firstOther || s.standBy(key, at)) && s.take(key, at) {
				busy[key] = true
			} else {
				call(s.settle(key, turn))
			}
			if len(busy) > size {
				t.Fatalf("%d calls with %d slots", len(busy), size)
			}
			if len(s.inLine) > 0 && len(busy)+len(called) < size {
				t.Fatalf("%d wait although a slot is free", len(s.inLine))
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"look": func(t *rapid.T) {
				look(slotKey(rapid.IntRange(0, 6).Draw(t, "item")), rapid.Bool().Draw(t, "needs a call"))
			},
			"end": func(t *rapid.T) {
				if key := slotKey(rapid.IntRange(0, 6).Draw(t, "item")); busy[key] {
					end(key)
				}
			},
		})
		for len(busy)+len(called) > 0 {
			for key := range busy {
				end(key)
			}
			for key := range called {
				look(key, true)
			}
		}
		if len(s.inLine)+len(slices.Concat(s.lines[:]...)) > 0 || s.free != size {
			t.Fatalf("left behind: %+v", s)
		}
	})
}
