package controller

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func slotKey(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(n)} }

func TestSlots(t *testing.T) {
	s := newSlots(1)
	if !s.take(slotKey(1), false) {
		t.Fatal("a free slot was not given")
	}
	for n := 2; n <= 4; n++ {
		if s.take(slotKey(n), n == 4) {
			t.Fatalf("item %d got a slot that is taken", n)
		}
	}
	if s.take(slotKey(2), false) {
		t.Fatal("whoever asks again does not get a slot for that")
	}
	if next := s.settle(slotKey(1), false); next != nil {
		t.Errorf("nobody's turn has come, but %v are called", next)
	}
	s.giveBack()
	var order []types.NamespacedName
	for next := s.settle(slotKey(1), false); len(next) > 0; {
		order = append(order, next...)
		if len(order) == 1 && s.take(slotKey(9), true) {
			t.Fatal("a slot that is kept for somebody was taken by another")
		}
		if !s.take(next[0], false) {
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
	s := newSlots(1)
	s.take(slotKey(1), false)
	s.take(slotKey(2), false)
	s.take(slotKey(3), false)
	s.giveBack()
	if next := s.settle(slotKey(1), false); !slices.Equal(next, []types.NamespacedName{slotKey(2)}) {
		t.Fatalf("expected the turn of 2, but found %v", next)
	}
	if next := s.settle(slotKey(2), true); !slices.Equal(next, []types.NamespacedName{slotKey(3)}) { // 2 has nothing to do any more
		t.Fatalf("expected the turn of 3, but found %v", next)
	}
	if next := s.settle(slotKey(3), true); next != nil || !s.take(slotKey(4), false) {
		t.Fatal("expected the slot to be free")
	}
}

// TestSlotsNeverLeak: never more calls than slots, nobody waits while a slot is free, and all get their turn.
func TestSlotsNeverLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newSlots(size)
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
			if takes && s.take(key, rapid.Bool().Draw(t, "under way")) {
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
		if len(s.inLine)+len(s.fresh)+len(s.underWay) > 0 || s.free != size {
			t.Fatalf("left behind: %+v", s)
		}
	})
}
