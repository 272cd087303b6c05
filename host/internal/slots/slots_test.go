package slots

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

func slotKey(n int) types.NamespacedName { return types.NamespacedName{Name: fmt.Sprint(n)} }

// TestOrderOfSlots: of the items of one target, own jobs before those that other replicas come first for, and of the
// latter those first that this one is the next best for, the last one first.
func TestOrderOfSlots(t *testing.T) {
	s := New(1, 0, time.Now)
	s.Acquire(slotKey(0), Share{}, Preferred)
	s.Standby(slotKey(1), Share{}, ClassOf(2, false))
	s.Standby(slotKey(2), Share{}, ClassOf(1, false))
	s.Acquire(slotKey(3), Share{}, Preferred)
	s.Standby(slotKey(4), Share{}, ClassOf(1, false))
	s.Acquire(slotKey(5), Share{}, Running)
	s.Acquire(slotKey(6), Share{}, Preferred)
	s.Standby(slotKey(7), Share{}, ClassOf(99, false))
	var order []types.NamespacedName
	s.Release(slotKey(0))
	for next := s.EndReconcile(slotKey(0), false); len(next) > 0; next = s.EndReconcile(next[0], true) {
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
	s := New(1, 0, func() time.Time { return now })
	if !s.Standby(slotKey(1), Share{}, firstOther) {
		t.Error("there is a free slot, but the item is not reconciled")
	}
	s.Acquire(slotKey(2), Share{}, Preferred)
	if s.Standby(slotKey(1), Share{}, firstOther) {
		t.Error("there is no free slot, but the item is reconciled")
	}
	if now = now.Add(MaxStandby - 1); s.Standby(slotKey(1), Share{}, firstOther) {
		t.Error("the item is reconciled before its time")
	}
	if now = now.Add(1); !s.Standby(slotKey(1), Share{}, firstOther) {
		t.Error("the item has waited for long, but is not reconciled")
	}
	if s.Acquire(slotKey(1), Share{}, firstOther) || s.Standby(slotKey(3), Share{}, firstOther) {
		t.Error("a slot was given that is taken")
	}
}

// fleetOfCalls plays the calls of many items: each takes a time, and each job pauses before its next call.
type fleetOfCalls struct {
	slots *Slots
	now   time.Time
	items map[types.NamespacedName]*playedItem
}

type playedItem struct {
	share  Share
	call   time.Duration // how long a call takes
	pause  time.Duration // before the next one; zero for a job of one call
	silent bool          // whether the target leaves the calls without an answer

	due, ends time.Time // zero for never
	begun     time.Time // of the first call; zero before
	class     Class
}

func newFleet(size int) *fleetOfCalls {
	f := &fleetOfCalls{now: time.Unix(0, 0), items: map[types.NamespacedName]*playedItem{}}
	f.slots = New(size, 0, func() time.Time { return f.now })
	return f
}

func (f *fleetOfCalls) add(name string, item playedItem) *playedItem {
	item.due, item.class = f.now, Preferred
	f.items[types.NamespacedName{Namespace: item.share.Namespace, Name: name}] = &item
	return &item
}

// play lets time pass.
func (f *fleetOfCalls) play(duration time.Duration) {
	keys := make([]types.NamespacedName, 0, len(f.items))
	for key := range f.items {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, func(a, b types.NamespacedName) int { return strings.Compare(a.String(), b.String()) })
	for end := f.now.Add(duration); f.now.Before(end); f.now = f.now.Add(100 * time.Millisecond) {
		for _, key := range keys {
			switch item := f.items[key]; {
			case !item.ends.IsZero() && !f.now.Before(item.ends):
				f.slots.SetAnswered(item.share, !item.silent)
				item.ends, item.due, item.class = time.Time{}, time.Time{}, Running
				if item.pause > 0 {
					item.due = f.now.Add(item.pause)
				}
				f.slots.Release(key)
				f.reserved(key, false)
			case !item.due.IsZero() && !f.now.Before(item.due):
				f.reconcile(key)
			}
		}
	}
}

func (f *fleetOfCalls) reconcile(key types.NamespacedName) {
	item, was := f.items[key], f.slots.IsReserved(key)
	item.due = time.Time{}
	if f.slots.Acquire(key, item.share, item.class) {
		item.ends = f.now.Add(item.call)
		if item.begun.IsZero() {
			item.begun = f.now
		}
	}
	f.reserved(key, was)
}

func (f *fleetOfCalls) reserved(key types.NamespacedName, was bool) {
	for _, next := range f.slots.EndReconcile(key, was) {
		f.items[next].due = f.now
	}
}

// TestNoJobStarves: a job for a target that answers begins soon, whatever the jobs of others do.
// Rule (host-configuration.md#workers): A job begins soon if its target answers, whatever the jobs of others do.
func TestNoJobStarves(t *testing.T) {
	ofTarget := func(n int) Share { return Share{"a", fmt.Sprint(n)} }
	hanging := playedItem{call: 10 * time.Second, pause: 50 * time.Second, silent: true}
	inHook := playedItem{call: 10 * time.Minute, pause: time.Second}
	busy := playedItem{call: time.Second, pause: 100 * time.Millisecond}
	for name, tc := range map[string]struct {
		size, others int
		other        playedItem
		share        func(n int) Share
		warm         time.Duration // how long the others have been there
		want         time.Duration
	}{
		"one silent target": {20, 200, hanging, func(int) Share { return Share{"a", "x"} }, 0, 0},
		"one silent target, of the same namespace": {
			20, 200, hanging, func(int) Share { return Share{"good", "x"} }, time.Second, 0,
		},
		"silent targets that have not been tried": {
			20, 200, hanging, func(n int) Share { return Share{"good", fmt.Sprint(n)} }, time.Second, 10 * time.Second,
		},
		"silent targets of namespaces that have not been tried": {
			20, 200, hanging, func(n int) Share { return Share{fmt.Sprint(n), "x"} }, time.Second, 10 * time.Second,
		},
		"silent targets of namespaces": {
			20, 200, hanging, func(n int) Share { return Share{fmt.Sprint(n), "x"} }, 3 * time.Minute, time.Second,
		},
		"silent targets of the same namespace": {
			20, 200, hanging, func(n int) Share { return Share{"good", fmt.Sprint(n)} }, 3 * time.Minute, time.Second,
		},
		"four slots":                      {4, 40, hanging, ofTarget, 10 * time.Minute, 3 * time.Second},
		"one slot":                        {1, 40, hanging, ofTarget, 10 * time.Minute, 10 * time.Second},
		"hooks that hang":                 {16, 100, inHook, func(int) Share { return Share{"a", "x"} }, time.Minute, 0},
		"hooks that hang on many targets": {16, 100, inHook, ofTarget, time.Minute, 0},
		"jobs that go on and on, of the same target": {
			2, 40, busy, func(int) Share { return Share{"good", "good"} }, time.Minute, headStart + 30*time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(tc.size)
			for n := range tc.others {
				item := tc.other
				item.share = tc.share(n)
				f.add(fmt.Sprint("other-", n), item)
			}
			f.play(tc.warm)
			good := f.add("good", playedItem{share: Share{"good", "good"}, call: time.Second})
			created := f.now
			f.play(tc.want + 200*time.Millisecond)
			if good.begun.IsZero() {
				f.play(10 * time.Minute)
				t.Fatalf("expected the job to begin within %s, but it did after %s", tc.want, good.begun.Sub(created))
			}
		})
	}
}

// TestSilentTarget: one call at a time tries a target that does not answer, and when it answers all go on at once.
// Rule (host-configuration.md#workers): A silent target gets one call at a time, and all when it answers.
func TestSilentTarget(t *testing.T) {
	f := newFleet(20)
	var items []*playedItem
	for n := range 100 {
		items = append(items, f.add(fmt.Sprint(n), playedItem{
			share: Share{"a", "x"}, call: 10 * time.Second, pause: time.Second, silent: true,
		}))
	}
	f.play(time.Minute)
	if used := f.slots.Used(); used != 1 {
		t.Errorf("expected one call while the target is silent, but found %d", used)
	}
	for _, item := range items {
		item.silent, item.pause = false, 0
	}
	f.play(time.Minute + 20*time.Second) // the rest of one call, and 100 calls in 16 slots
	if left := f.slots.Used() + f.slots.Waiting(); left > 0 || len(f.slots.shares) > 0 {
		t.Errorf("%d are left, and the shares %v", left, f.slots.shares)
	}
}

// TestMostOfTarget: a plugin with a limit for each target gets no more calls for it at once, and as many as before for
// others.
// Rule (host-configuration.md#workers): A Target gets no more calls at once than its plugin or `workersPerTarget`
// allows.
func TestMostOfTarget(t *testing.T) {
	f := newFleet(20)
	f.slots.perTarget = 2
	for n := range 40 {
		f.add(fmt.Sprint(n), playedItem{share: Share{"a", fmt.Sprint(n % 4)}, call: time.Second})
	}
	f.play(time.Second / 2)
	for of, state := range f.slots.shares {
		if state.given != 2 {
			t.Errorf("expected two calls for the target %v, but found %d", of, state.given)
		}
	}
	if f.play(6 * time.Second); f.slots.Used()+f.slots.Waiting() > 0 {
		t.Errorf("%d calls and %d queued items are left", f.slots.Used(), f.slots.Waiting())
	}
	for n := range 10 {
		f.add(fmt.Sprint("none", n), playedItem{share: Share{"a", ""}, call: time.Second})
	}
	if f.play(time.Second / 2); f.slots.Used() != 10 {
		t.Errorf("expected ten calls for items without a Target, but found %d", f.slots.Used())
	}
}

// TestFairShares: tenants with more work than there are slots get equally many, whatever their targets.
// Rule (host-configuration.md#workers): Namespaces share the workers equally.
func TestFairShares(t *testing.T) {
	f := newFleet(8)
	for n := range 900 {
		of := Share{"few", "x"}
		if n%3 > 0 {
			of = Share{"many", fmt.Sprint(n)}
		}
		f.add(fmt.Sprint(n), playedItem{share: of, call: time.Second})
	}
	f.play(time.Minute)
	began := map[string]int{}
	for _, item := range f.items {
		if !item.begun.IsZero() {
			began[item.share.Namespace]++
		}
	}
	if few, many := began["few"], began["many"]; few+many < 400 || few < many*9/10 || many < few*9/10 {
		t.Errorf("in the same time %d and %d jobs began", few, many)
	}
}

// TestSlotsNeverLeak: never more calls than slots, and of poison items one at a time; no item waits while a slot is
// free that it may have, and all get theirs.
// Rule (host-configuration.md#workers): Never more calls run at once than there are workers.
func TestSlotsNeverLeak(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 9).Draw(t, "slots")
		now := time.Now()
		s := New(size, 0, func() time.Time { return now })
		busy, called := map[types.NamespacedName]bool{}, map[types.NamespacedName]bool{}
		poisons := map[types.NamespacedName]bool{} // that are in a call
		shares := []Share{{"a", "x"}, {"a", "y"}, {"b", "x"}, Poison}
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
			s.Release(key)
			call(s.EndReconcile(key, false))
		}
		reconcile := func(key types.NamespacedName, takes bool) {
			if busy[key] {
				return // an item is reconciled by one worker at a time
			}
			kept := s.IsReserved(key)
			if kept != called[key] {
				t.Fatalf("a slot is kept for %v: %t", key, kept)
			}
			delete(called, key)
			of := rapid.SampledFrom(shares).Draw(t, "share")
			at := Class(rapid.IntRange(int(Running), int(lastOther)).Draw(t, "class"))
			if takes && (at < firstOther || s.Standby(key, of, at)) && s.Acquire(key, of, at) {
				busy[key] = true
				if of == Poison {
					poisons[key] = true
				}
			}
			call(s.EndReconcile(key, kept))
			if len(busy)+len(called) > size {
				t.Fatalf("%d calls with %d slots", len(busy)+len(called), size)
			}
			if len(poisons) > 1 {
				t.Fatalf("poison items are in calls at the same time: %v", poisons)
			}
			if next, ok := s.next(); ok {
				t.Fatalf("%v waits although a slot is free", next)
			}
		}
		t.Repeat(map[string]func(*rapid.T){
			"reconcile": func(t *rapid.T) {
				reconcile(slotKey(rapid.IntRange(0, 12).Draw(t, "item")), rapid.Bool().Draw(t, "needs a call"))
			},
			"end": func(t *rapid.T) {
				if key := slotKey(rapid.IntRange(0, 12).Draw(t, "item")); busy[key] {
					end(key)
				}
			},
			"answer": func(t *rapid.T) {
				s.SetAnswered(rapid.SampledFrom(shares[:3]).Draw(t, "share"), rapid.Bool().Draw(t, "answers"))
			},
			"time": func(*rapid.T) { now = now.Add(time.Minute) },
		})
		call(s.EndReconcile(slotKey(0), false)) // silence may have ended
		for len(busy)+len(called) > 0 {
			for key := range busy {
				end(key)
			}
			for key := range called {
				reconcile(key, true)
			}
		}
		now = now.Add(silence)
		s.SetAnswered(Share{"a", "x"}, true)
		if len(s.queued)+len(s.given)+len(s.shares) > 0 {
			t.Fatalf("left behind: %+v", s)
		}
	})
}

// TestTriesComeLater: a try after a failure lets jobs go first that came up to half a minute after it.
func TestTriesComeLater(t *testing.T) {
	now := time.Now()
	s := New(1, 0, func() time.Time { return now })
	s.Acquire(slotKey(0), Share{}, Preferred)
	s.Acquire(slotKey(1), Share{}, ClassOf(0, true))
	now = now.Add(headStart - 1)
	s.Acquire(slotKey(2), Share{}, ClassOf(0, false))
	now = now.Add(2)
	s.Acquire(slotKey(3), Share{}, ClassOf(0, false))
	var order []types.NamespacedName
	s.Release(slotKey(0))
	for next := s.EndReconcile(slotKey(0), false); len(next) > 0; next = s.EndReconcile(next[0], true) {
		order = append(order, next...)
	}
	if diff := cmp.Diff([]types.NamespacedName{slotKey(2), slotKey(1), slotKey(3)}, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}
