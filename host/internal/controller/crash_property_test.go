package controller

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// ward is some items of one plugin in one or two replicas. Some of the items are poison: each of their calls kills
// the plugin at some time. Nothing has a duration: whatever can happen next may happen next.
type ward struct {
	t        *rapid.T
	limit    int
	polls    bool // items in line are looked at although nobody has told them
	replicas []*wardReplica
	items    []*patient
	history  []string
}

// wardReplica is a replica with its slots and its process of the plugin.
type wardReplica struct {
	name  string
	slots *slots
	runs  bool
	// told are the items in its queue because of a turn.
	told []types.NamespacedName
}

// patient is an item with a job under way.
type patient struct {
	key    types.NamespacedName
	status *v1alpha1.DeployItem
	poison bool
	calls  int // to go
	at     *wardReplica
	state  patientState
	// turn and told: a slot was kept for the item when the look at it began, and was given to it since.
	turn, told bool
}

type patientState string

const (
	isDue        patientState = "due"
	isRefused    patientState = "refused, and its look goes on"
	isInLine     patientState = "in line"
	isInCall     patientState = "in its call"
	isWaiting    patientState = "waiting for the plugin"
	hasSucceeded patientState = "succeeded"
	hasFailed    patientState = "failed"
)

func newWard(t *rapid.T, poisons, limit int) *ward {
	w := &ward{t: t, limit: limit, polls: rapid.Bool().Draw(t, "polls")}
	for n := range rapid.IntRange(1, 2).Draw(t, "replicas") {
		w.replicas = append(w.replicas, &wardReplica{
			name: fmt.Sprint("replica-", n), slots: newSlots(rapid.IntRange(1, 4).Draw(t, "slots"), time.Now), runs: true,
		})
	}
	for n := range poisons + rapid.IntRange(1, 6).Draw(t, "innocents") {
		item := &v1alpha1.DeployItem{}
		contract.SetJob(item, "job", noon)
		contract.Begin(item, false, v1alpha1.DeployerInformation{}, noon)
		w.items = append(w.items, &patient{
			key: slotKey(n), status: item, poison: n < poisons, calls: rapid.IntRange(1, 3).Draw(t, "calls"),
			at: rapid.SampledFrom(w.replicas).Draw(t, "replica"), state: isDue,
		})
	}
	return w
}

func (w *ward) note(format string, args ...any) {
	w.history = append(w.history, fmt.Sprintf(format, args...))
}

func (w *ward) fail(format string, args ...any) {
	w.t.Fatalf(format+"\nhistory:\n%s", append(args, strings.Join(w.history, "\n"))...)
}

// possible is everything that can happen next.
func (w *ward) possible() (next []func()) {
	for _, p := range w.items {
		switch p.state {
		case isDue:
			next = append(next, func() { w.look(p) })
		case isInLine:
			if w.polls {
				next = append(next, func() { w.look(p) })
			}
		case isRefused:
			next = append(next, func() { w.settle(p) })
		case isInCall:
			next = append(next, func() { w.endCall(p) })
		case isWaiting:
			if other := w.runningOther(p.at); !p.at.runs && other != nil {
				next = append(next, func() { p.at, p.state = other, isDue })
			}
		case hasSucceeded, hasFailed:
		}
	}
	for _, r := range w.replicas {
		if !r.runs {
			next = append(next, func() { w.restart(r) })
		}
		if len(r.told) > 0 {
			next = append(next, func() { w.takeTurn(r) })
		}
	}
	return next
}

func (w *ward) runningOther(here *wardReplica) *wardReplica {
	i := slices.IndexFunc(w.replicas, func(r *wardReplica) bool { return r != here && r.runs })
	if i < 0 {
		return nil
	}
	return w.replicas[i]
}

// look is one look at an item up to its call.
func (w *ward) look(p *patient) {
	p.turn, p.told = p.at.slots.hasTurn(p.key), false
	if w.polls && rapid.Bool().Draw(w.t, "another replica comes first") && !p.at.slots.standBy(p.key, firstOther) {
		p.state = isInLine
		w.settle(p)
		return
	}
	crashes := contract.Crashes(p.status)
	took := crashes == 0 && p.at.slots.take(p.key, underWay) || crashes > 0 && p.at.slots.takeAlone(p.key, underWay)
	switch {
	case !took:
		p.state = isRefused
	case !p.at.runs:
		w.note("%s finds no plugin in %s", p.key, p.at.name)
		p.at.slots.giveBack()
		p.state = isWaiting
		w.settle(p)
	default:
		w.note("%s (%d crashes) is called in %s", p.key, crashes, p.at.name)
		p.state = isInCall
		w.checkSuspects(p.at)
	}
}

// settle ends a look.
func (w *ward) settle(p *patient) {
	if p.state == isRefused {
		p.state = isInLine
	}
	if p.told && p.state == isInLine {
		p.state = isDue
	}
	p.at.told = append(p.at.told, p.at.slots.settle(p.key, p.turn)...)
}

// takeTurn lets the item have its turn that was told first. One that is not here any more, or waits for the plugin,
// has no use for it.
func (w *ward) takeTurn(r *wardReplica) {
	key := r.told[0]
	r.told = r.told[1:]
	i := slices.IndexFunc(w.items, func(p *patient) bool { return p.key == key })
	p := w.items[i]
	switch {
	case p.at == r && p.state == isInLine:
		w.look(p)
	case p.at == r && (p.state == isRefused || p.state == isInCall):
		p.told = true
	case p.at == r && p.state == isDue: // its look is to come
	default:
		r.told = append(r.told, r.slots.settle(key, r.slots.hasTurn(key))...)
	}
}

// endCall ends a call: that of a poison item with a crash.
func (w *ward) endCall(p *patient) {
	if p.poison {
		w.crash(p.at)
		return
	}
	p.at.slots.giveBack()
	p.state = isDue
	if p.calls--; p.calls == 0 {
		p.state = hasSucceeded
		contract.Succeed(p.status, noon)
	}
	w.note("the call of %s has ended: %s", p.key, p.state)
	w.settle(p)
}

// crash ends a process of the plugin, and with it all calls.
func (w *ward) crash(r *wardReplica) {
	w.note("the plugin of %s crashes", r.name)
	r.runs = false
	for _, p := range w.items {
		if p.at != r || p.state != isInCall {
			continue
		}
		crashes := contract.Crashes(p.status) + 1
		w.note("%s has had %d crashes", p.key, crashes)
		r.slots.giveBack()
		p.state = isWaiting
		if e := crashError(contract.Error{}, false, crashes, w.limit); e.Final() {
			p.state = hasFailed
			contract.Fail(p.status, false, e, noon)
			if crashes != w.limit {
				w.fail("%s has failed after %d crashes", p.key, crashes)
			}
		} else {
			contract.NoteCrashes(p.status, crashes, noon)
		}
		w.settle(p)
	}
}

func (w *ward) restart(r *wardReplica) {
	w.note("the plugin of %s runs", r.name)
	r.runs = true
	for _, p := range w.items {
		if p.at == r && p.state == isWaiting {
			p.state = isDue
		}
	}
}

func (w *ward) checkSuspects(r *wardReplica) {
	suspects := 0
	for _, p := range w.items {
		if p.at == r && p.state == isInCall && contract.Crashes(p.status) > 0 {
			suspects++
		}
	}
	if suspects > 1 {
		w.fail("%d suspects are in a call", suspects)
	}
}

// TestOnlyPoisonIsConvicted: items that kill the plugin fail when they have done so limit times, and the others
// succeed, as long as there are fewer of the former than limit: each of them hits an innocent item at most once.
func TestOnlyPoisonIsConvicted(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(2, 4).Draw(t, "limit")
		poisons := rapid.IntRange(1, limit-1).Draw(t, "poisons")
		w := newWard(t, poisons, limit)
		const enough = 5000
		for range enough {
			next := w.possible()
			if len(next) == 0 {
				break
			}
			next[rapid.IntRange(0, len(next)-1).Draw(t, "next")]()
			for _, p := range w.items {
				if crashes := contract.Crashes(p.status); !p.poison && crashes > poisons {
					w.fail("%s is innocent and has had %d crashes of %d poison items", p.key, crashes, poisons)
				}
			}
		}
		for _, p := range w.items {
			if want := map[bool]patientState{true: hasFailed, false: hasSucceeded}[p.poison]; p.state != want {
				w.fail("%s has not come to its end, but is %s", p.key, p.state)
			}
		}
		for _, r := range w.replicas {
			if s := r.slots; s.free != s.size || len(s.called)+len(s.inLine)+len(s.suspects.line) > 0 || !s.suspects.nobodysTurn() {
				w.fail("left behind in %s: %+v", r.name, s)
			}
		}
	})
}
