package replica

import (
	"log/slog"
	"slices"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
)

// model is a pod name "a" whose pods, processes and Lease come and go, and a replica that hears of it late.
type model struct {
	*View
	feed  *Feed
	clock *clocktesting.FakePassiveClock
	told  []string

	count   int
	pod     types.UID // empty: there is none
	process string    // the one that runs; empty: none does
	renewed time.Time
	lease   *coordinationv1.Lease
	past    []string // all processes there have been
	meddled bool     // the Lease of a living process was deleted

	pods, leases []func() // what the watches have not shown yet
	answer       func()   // what was read and has not been told yet
	due          time.Time
}

func newModel() *model {
	m := &model{clock: clocktesting.NewFakePassiveClock(noon)}
	self := Self{PodName: "me", PodUID: "me-uid", Process: "me/1", LeaseDuration: duration}
	m.View, m.feed = NewView(self, m.clock, slog.New(slog.DiscardHandler), func(string) { m.due = m.clock.Now() })
	return m
}

func (m *model) next(prefix string) string { m.count++; return prefix + strconv.Itoa(m.count) }

func (m *model) createPod() {
	if m.pod != "" {
		return
	}
	uid := types.UID(m.next("uid-"))
	m.pod = uid
	m.pods = append(m.pods, func() { m.feed.PodSeen("a", uid) })
}

func (m *model) deletePod() {
	if m.pod == "" {
		return
	}
	m.pod, m.process = "", ""
	m.pods = append(m.pods, func() { m.feed.PodMissing("a") })
}

func (m *model) startProcess() {
	if m.pod == "" {
		return
	}
	m.process = m.next("a/")
	m.past = append(m.past, m.process)
	m.writeLease(m.process)
}

func (m *model) writeLease(holder string) {
	m.renewed = m.clock.Now()
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: LeaseName("a"), ResourceVersion: m.next(""), Labels: map[string]string{LabelGroup: GroupLabel("")},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "a", UID: m.pod}},
		},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: &holder, LeaseDurationSeconds: ptr.To(int32(duration / time.Second)),
			RenewTime: ptr.To(metav1.NewMicroTime(noon.Add(time.Duration(m.count) * time.Microsecond))),
		},
	}
	m.lease = lease
	m.leases = append(m.leases, func() { m.feed.LeaseSeen(lease, false) })
}

func (m *model) giveBack() {
	if m.process != "" && m.lease != nil {
		m.writeLease("")
		m.process = ""
	}
}

// deleteLease is the garbage collector, and for once somebody who does so by hand.
func (m *model) deleteLease() {
	living := m.process != ""
	if m.lease == nil || living && m.meddled {
		return
	}
	m.meddled = m.meddled || living
	m.lease = nil
	version := m.next("")
	m.leases = append(m.leases, func() { m.feed.LeaseGone("a", version) })
}

func (m *model) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		m.clock.SetTime(m.clock.Now().Add(time.Second))
		m.feed.Renewed(m.clock.Now())
		if m.process != "" && m.clock.Since(m.renewed) >= duration/3 {
			m.writeLease(m.process)
		}
	}
}

// read asks and reads; tell gives the answer, maybe much later.
func (m *model) read() {
	if m.answer != nil {
		return
	}
	question, _ := m.feed.Next("a")
	lease := m.lease
	switch {
	case question == AskPod && m.pod == "":
		m.answer = func() { m.feed.PodGone("a") }
	case question == AskLease && lease != nil:
		m.answer = func() { m.feed.LeaseSeen(lease, true) }
	case question == AskLease:
		m.answer = func() { m.feed.LeaseGone("a", "") }
	}
}

func (m *model) tell() {
	if m.answer != nil {
		m.answer()
		m.answer = nil
	}
}

// hear has a watch show the next thing.
func hear(watch *[]func()) {
	if len(*watch) > 0 {
		event := (*watch)[0]
		*watch = (*watch)[1:]
		event()
	}
}

// look does what a finder does when it is time.
func (m *model) look() {
	if m.due.IsZero() || m.clock.Now().Before(m.due) {
		return
	}
	m.due = time.Time{}
	m.read()
	m.tell()
	if question, wait := m.feed.Next("a"); question != Nothing {
		m.due = m.clock.Now()
	} else if wait > 0 {
		m.due = m.clock.Now().Add(wait)
	}
}

func (m *model) ask(t *rapid.T) {
	if len(m.past) > 0 {
		m.Verdict("a", rapid.SampledFrom(m.past).Draw(t, "process"))
	}
}

// TestVerdictModel: whatever happens, in whatever order it is heard of, no process that runs is dead, and each other one is found out about
// and told to those who have asked.
func TestVerdictModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := newModel()
		actions := map[string]func(*rapid.T){
			"create pod": act(m.createPod), "delete pod": act(m.deletePod), "start process": act(m.startProcess),
			"crash": act(func() { m.process = "" }), "give back": act(m.giveBack), "delete Lease": act(m.deleteLease),
			"time":     func(t *rapid.T) { m.pass(time.Duration(rapid.IntRange(1, 20).Draw(t, "seconds")) * time.Second) },
			"see pods": act(func() { hear(&m.pods) }), "see Leases": act(func() { hear(&m.leases) }),
			"see all Leases": act(func() {
				for len(m.leases) > 0 {
					hear(&m.leases)
				}
			}),
			"ask": m.ask, "read": act(m.read), "answer": act(m.tell), "look": act(m.look),
			"": func(t *rapid.T) {
				if m.process != "" && m.Verdict("a", m.process) == Dead {
					t.Fatalf("%s runs, but counts as dead", m.process)
				}
			},
		}
		t.Repeat(actions)
		m.settle(t)
	})
}

func act(f func()) func(*rapid.T) { return func(*rapid.T) { f() } }

// settle lets all that has happened be heard, and checks what is made of it in the end.
func (m *model) settle(t *rapid.T) {
	m.tell()
	var waiting []string
	for _, process := range m.past {
		if process != m.process && m.Verdict("a", process) == Alive {
			waiting = append(waiting, process)
		}
	}
	m.feed.Deliver()
	m.Subscribe(deaths{m})
	for range 5 * int(duration/time.Second) {
		m.pass(time.Second)
		for len(m.pods)+len(m.leases) > 0 {
			hear(&m.pods)
			hear(&m.leases)
		}
		m.look()
		m.feed.Deliver()
	}
	for _, process := range waiting {
		if !slices.Contains(m.told, process) {
			t.Fatalf("nobody was told that %s is dead: %s", process, m.Verdict("a", process))
		}
	}
	if m.process != "" && m.Verdict("a", m.process) == Dead {
		t.Fatalf("%s runs, but counts as dead", m.process)
	}
}

// deaths notes who counts as dead when a death is told.
type deaths struct{ *model }

func (d deaths) ReplicaDied(string) {
	for _, process := range d.past {
		if d.Verdict("a", process) == Dead {
			d.told = append(d.told, process)
		}
	}
}
func (deaths) ReplicasChanged() {}
func (deaths) Lapsed()          {}
func (deaths) Renewed()         {}
