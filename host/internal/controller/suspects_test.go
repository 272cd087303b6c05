package controller

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
)

// settled ends the call of an item, and returns whose turn it is then.
func (s *slots) settled(key types.NamespacedName) []types.NamespacedName {
	s.giveBack()
	return s.settle(key, false)
}

// refuse has a suspect ask for a slot that it does not get, and returns whose turn it is then.
func (s *slots) refuse(t *testing.T, key types.NamespacedName) []types.NamespacedName {
	t.Helper()
	turn := s.hasTurn(key)
	if s.takeAlone(key, underWay) {
		t.Fatalf("%v got a slot, although another suspect has its turn", key)
	}
	return s.settle(key, turn)
}

// TestSuspectsAreCalledOneAtATime: in the order in which they came, and nobody else waits for them.
func TestSuspectsAreCalledOneAtATime(t *testing.T) {
	s := newSlots(3, time.Now)
	if !s.takeAlone(slotKey(1), underWay) {
		t.Fatal("the first suspect got none of three slots")
	}
	for n := 2; n <= 4; n++ {
		s.refuse(t, slotKey(n))
	}
	s.refuse(t, slotKey(2)) // it is looked at again
	if !s.take(slotKey(8), own) || !s.take(slotKey(9), own) {
		t.Fatal("slots are free, but those who are no suspects got none")
	}
	var order []types.NamespacedName
	for next := s.settled(slotKey(1)); len(next) > 0; next = s.settled(next[0]) {
		order = append(order, next...)
		if !s.hasTurn(next[0]) || !s.takeAlone(next[0], underWay) {
			t.Fatalf("it is the turn of %v, but it got no slot", next[0])
		}
	}
	if diff := cmp.Diff([]types.NamespacedName{slotKey(2), slotKey(3), slotKey(4)}, order); diff != "" {
		t.Errorf("order of turns (-want +got):\n%s", diff)
	}
}

// TestSuspectWaitsForASlot: a suspect whose turn has come stands in line like the others, and keeps its turn meanwhile.
func TestSuspectWaitsForASlot(t *testing.T) {
	s := newSlots(1, time.Now)
	s.take(slotKey(0), own)
	s.take(slotKey(8), underWay)
	if s.takeAlone(slotKey(1), underWay) {
		t.Fatal("a slot was given that is taken")
	}
	s.settle(slotKey(1), false)
	s.refuse(t, slotKey(2))
	s.take(slotKey(9), underWay)
	s.take(slotKey(10), own)
	var order []types.NamespacedName
	for next := s.settled(slotKey(0)); len(next) > 0; next = s.settled(next[0]) {
		order = append(order, next...)
		if suspect := next[0] == slotKey(1) || next[0] == slotKey(2); suspect && !s.takeAlone(next[0], underWay) || !suspect && !s.take(next[0], underWay) {
			t.Fatalf("it is the turn of %v, but it got no slot", next[0])
		}
	}
	if diff := cmp.Diff([]types.NamespacedName{slotKey(8), slotKey(1), slotKey(9), slotKey(2), slotKey(10)}, order); diff != "" {
		t.Errorf("order of turns (-want +got):\n%s", diff)
	}
}

// expectTurn fails unless it is the turn of these items.
func expectTurn(t *testing.T, got []types.NamespacedName, want ...types.NamespacedName) {
	t.Helper()
	if !slices.Equal(got, want) {
		t.Errorf("expected the turn of %v, but found that of %v", want, got)
	}
}

// TestUnusedTurnGoesToTheNextSuspect: an item may be gone, or have no call to make, when its turn comes.
func TestUnusedTurnGoesToTheNextSuspect(t *testing.T) {
	s := newSlots(3, time.Now)
	s.takeAlone(slotKey(1), underWay)
	s.refuse(t, slotKey(2))
	s.refuse(t, slotKey(3))
	expectTurn(t, s.settled(slotKey(1)), slotKey(2))
	expectTurn(t, s.settle(slotKey(2), true), slotKey(3))
	expectTurn(t, s.settle(slotKey(3), true))
	if !s.takeAlone(slotKey(4), underWay) {
		t.Error("nobody has a turn, but a suspect got no slot")
	}
}

// TestNewJobIsNoSuspect: an item that was a suspect gets its slot like the others, and holds no suspect up during its
// call.
func TestNewJobIsNoSuspect(t *testing.T) {
	s := newSlots(3, time.Now)
	s.takeAlone(slotKey(1), underWay)
	s.refuse(t, slotKey(2))
	s.refuse(t, slotKey(3))
	s.refuse(t, slotKey(4))
	if !s.take(slotKey(3), own) { // a new job while it stands in line
		t.Error("a slot is free, but it was not given")
	}
	expectTurn(t, s.settled(slotKey(1)), slotKey(2))
	if !s.take(slotKey(2), own) { // a new job when its turn has come
		t.Error("it is the item's turn, but it got no slot")
	}
	expectTurn(t, s.settled(slotKey(3)), slotKey(4))
}

// keepSlot keeps a slot for an item that another replica comes first for, of two of which one is taken.
func keepSlot(s *slots, key types.NamespacedName) {
	s.take(slotKey(8), own)
	s.standBy(key, firstOther)
	s.settled(slotKey(8))
}

// TestTurnOfOneWithASlot: the turn of a suspect for which a slot is kept already begins without another one, and a
// look that began before does not end it.
func TestTurnOfOneWithASlot(t *testing.T) {
	s := newSlots(2, time.Now)
	s.takeAlone(slotKey(1), underWay)
	s.refuse(t, slotKey(2))
	s.refuse(t, slotKey(3))
	turn := s.hasTurn(slotKey(2))
	keepSlot(s, slotKey(2))
	expectTurn(t, s.settled(slotKey(1)))
	expectTurn(t, s.settle(slotKey(2), turn))
	if !s.takeAlone(slotKey(2), underWay) {
		t.Error("it is the suspect's turn, but it got no slot")
	}
	expectTurn(t, s.settled(slotKey(2)), slotKey(3))
}

// TestTurnThatComesDuringALook: the turn of a suspect that was refused just before is not lost, whatever the look
// began with.
func TestTurnThatComesDuringALook(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		begins       func(s *slots)
		turn         bool
	}{
		{"a look at any time", "the suspect has no place in line before its look ends", func(*slots) {}, false},
		{"a look when a slot was kept", "that slot is given back with the look, and the turn that came is for the next one",
			func(s *slots) { keepSlot(s, slotKey(2)) }, true},
		{"a look when a slot was kept for one in line", "the same", func(s *slots) {
			s.takeAlone(slotKey(2), underWay)
			s.settle(slotKey(2), false)
			keepSlot(s, slotKey(2))
		}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			s := newSlots(2, time.Now)
			s.takeAlone(slotKey(1), underWay)
			tc.begins(s)
			if turn := s.hasTurn(slotKey(2)); turn != tc.turn {
				t.Fatalf("a slot is kept: %t", turn)
			}
			if s.takeAlone(slotKey(2), underWay) {
				t.Fatal("another suspect has its turn")
			}
			s.settled(slotKey(1))
			if next := s.settle(slotKey(2), tc.turn); !slices.Equal(next, []types.NamespacedName{slotKey(2)}) {
				t.Errorf("%s: found the turn of %v", tc.reason, next)
			}
			if !s.takeAlone(slotKey(2), underWay) {
				t.Error("it is the suspect's turn, but it got no slot")
			}
		})
	}
}
