package controller

import (
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// TestNobodyStarvesInLine: items that another replica comes first for, and which that one never comes to, wait in
// line for longWait, and then each gets one of fairTurns turns, although something else always comes before it.
func TestNobodyStarvesInLine(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		comes        place
	}{
		{"jobs under way", "their time is running, but they are called for again and again", underWay},
		{"own items", "there may always be more of them than slots", own},
		{"others of the same rank", "the last one that came is taken first, and there is always a later one", firstOther},
	} {
		t.Run(tc.name, func(t *testing.T) {
			const starving, lasts = 3, time.Second // a turn lasts
			now := time.Now()
			s := newSlots(1, func() time.Time { return now })
			s.take(slotKey(0), own)
			for n := range starving {
				s.standBy(starvingKey(n), firstOther)
			}
			var order []types.NamespacedName
			for turn := 1; len(order) < starving; turn++ {
				if limit := int(longWait/lasts) + starving*fairTurns; turn > limit {
					t.Fatalf("%s: after %d turns only %v had one of them", tc.reason, limit, order)
				}
				s.take(slotKey(turn), tc.comes)
				now = now.Add(lasts)
				s.giveBack()
				called := s.settle(slotKey(turn-1), false)
				if len(called) != 1 || !s.take(called[0], tc.comes) {
					t.Fatalf("one slot came free, but %v are called", called)
				}
				if called[0].Namespace != "" {
					order = append(order, called[0])
				}
			}
			for n, key := range order {
				if key != starvingKey(n) {
					t.Errorf("%s: expected them in the order in which they came, but found %v", tc.reason, order)
				}
			}
		})
	}
}

// TestWaitGoesOnAtAnotherPlace: an item is looked at again and again while it stands in line, and finds another place
// each time, because replicas come and go. It has waited since it came all the same.
func TestWaitGoesOnAtAnotherPlace(t *testing.T) {
	now := time.Now()
	s := newSlots(1, func() time.Time { return now })
	s.take(slotKey(0), own)
	for turn := 1; turn <= int(longWait/time.Second)+fairTurns; turn++ {
		s.take(slotKey(turn), own)
		now = now.Add(time.Second)
		if s.take(starvingKey(0), firstOther+place(turn%2)) {
			t.Fatal("a slot was given that is taken")
		}
		s.giveBack()
		for _, key := range s.settle(slotKey(turn-1), false) {
			if key == starvingKey(0) {
				return
			}
			s.take(key, own)
		}
	}
	t.Errorf("the item has not had its turn %s after it came", longWait)
}

func starvingKey(n int) types.NamespacedName {
	key := slotKey(n)
	key.Namespace = "starving"
	return key
}
