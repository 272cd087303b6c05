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

// TestOrderOfSlots: own jobs before those that other replicas come first for, and of the latter those first that this
// one is the next best for, the last one first.
func TestOrderOfSlots(t *testing.T) {
	s := newSlots(1, time.Now)
	s.acquire(slotKey(0), preferred)
	s.standby(slotKey(1), classOf(2))
	s.standby(slotKey(2), classOf(1))
	s.acquire(slotKey(3), preferred)
	s.standby(slotKey(4), classOf(1))
	s.acquire(slotKey(5), running)
	s.acquire(slotKey(6), preferred)
	s.standby(slotKey(7), classOf(99))
	var order []types.NamespacedName
	s.release()
	for next := s.reconciled(slotKey(0), false); len(next) > 0; next = s.reconciled(next[0], true) {
		order = append(order, next...)
	}
	want := []types.NamespacedName{slotKey(5), slotKey(3), slotKey(6), slotKey(4), slotKey(2), slotKey(1), slotKey(7)}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order of slots (-want +got):\n%s", diff)
	}
}

// TestStandby: an item that another replica comes first for is reconciled when there is a slot that it could have, and
// else after a while, so that it does not depend on the other one.
func TestStandby(t *testing.T) {
	now := time.Now()
	s := newSlots(1, func() time.Time { return now })
	if !s.standby(slotKey(1), firstOther) {
		t.Error("there is a free slot, but the item is not reconciled")
	}
	s.acquire(slotKey(2), preferred)
	if s.standby(slotKey(1), firstOther) {
		t.Error("there is no free slot, but the item is reconciled")
	}
	if now = now.Add(maxStandby - 1); s.standby(slotKey(1), firstOther) {
		t.Error("the item is reconciled before its time")
	}
	if now = now.Add(1); !s.standby(slotKey(1), firstOther) {
		t.Error("the item has waited for long, but is not reconciled")
	}
	if s.acquire(slotKey(1), firstOther) || s.standby(slotKey(3), firstOther) {
		t.Error("a slot was given that is taken")
	}
}

// TestSlotsNeverLeak: never more calls than slots, and of poison items one at a time; nobody else waits while a slot is
// free, and all get theirs.
func TestSlotsNeverLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 3).Draw(t, "slots")
		s := newSlots(size, time.Now)
		busy, called := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		poisons := map[types.NamespacedName]bool{} // that are in a call
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
			delete(poisons, key)
			s.release()
			call(s.reconciled(key, false))
		}
		reconcile := func(key types.NamespacedName, takes bool) {
			if busy[key] {
				return // an item is reconciled by one worker at a time
			}
			kept := s.isReserved(key)
			if kept != called[key] {
				t.Fatalf("a slot is kept for %v: %t", key, kept)
			}
			delete(called, key)
			at := class(rapid.IntRange(int(poison), int(lastOther)).Draw(t, "class"))
			if takes && (at < firstOther || s.standby(key, at)) && s.acquire(key, at) {
				busy[key] = true
				if at == poison {
					poisons[key] = true
				}
			} else {
				call(s.reconciled(key, kept))
			}
			if len(busy) > size {
				t.Fatalf("%d calls with %d slots", len(busy), size)
			}
			if len(poisons) > 1 {
				t.Fatalf("poison items are in calls at the same time: %v", poisons)
			}
			if waiting := len(s.queued) - len(s.queues[poison]); waiting > 0 && len(busy)+len(called) < size {
				t.Fatalf("%d wait although a slot is free", waiting)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"reconcile": func(t *rapid.T) {
				reconcile(slotKey(rapid.IntRange(0, 6).Draw(t, "item")), rapid.Bool().Draw(t, "needs a call"))
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
				reconcile(key, true)
			}
		}
		if len(s.queued)+len(slices.Concat(s.queues[:]...)) > 0 || s.free != size || s.poison != (types.NamespacedName{}) {
			t.Fatalf("left behind: %+v", s)
		}
	})
}
