package lock

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// rules are what a mutant of the protocol leaves out. The zero value is the protocol.
type rules struct {
	// noFence: a job under way is gone on with under a new lock without a change of the item.
	noFence bool
	// noVerify: after a conflict the lock is not looked at; verifyFirst: it is, but before the item is read.
	noVerify, verifyFirst bool
	// rereadUnverified: an item that is decided on anew while the lock is held is trusted without a look at the lock.
	rereadUnverified bool
	// exportUnverified: the export is written without a look at the lock.
	exportUnverified bool
	// unconditional: writes of the item have no condition.
	unconditional bool
	// alwaysValid: locks are taken and used without a Lease of one's own that holds.
	alwaysValid bool
	// trustWatch: that a Lease has expired is concluded from the watch alone.
	trustWatch bool
}

// model is a cluster, the processes of its replicas and what happens to them.
type model struct {
	*cluster
	rules  *rules
	choose func(n int) int
	late   []func()
	all    []*process
	pods   int
	uids   int
}

const (
	maxProcesses = 7
	maxJobs      = 4
)

func newModel(t *rapid.T, r *rules) *model {
	m := &model{cluster: newCluster(t.Logf), rules: r}
	m.choose = func(n int) int { return rapid.IntRange(0, n-1).Draw(t, "choice") }
	for range 2 + m.choose(3) {
		m.join()
	}
	for i := range 1 + m.choose(2) {
		m.createItem(fmt.Sprintf("item-%d", i))
	}
	return m
}

func (m *model) createItem(name string) {
	m.uids++
	m.putItem(modelItem{name: name, uid: types.UID(fmt.Sprintf("uid-%d", m.uids)), job: 1})
}

// join adds a replica in a pod of its own.
func (m *model) join() {
	m.pods++
	pod := fmt.Sprintf("pod-%d", m.pods)
	m.putPod(pod, types.UID(fmt.Sprintf("%s-uid", pod)))
	m.start(pod)
}

func (m *model) start(pod string) {
	skew := time.Duration(m.choose(7)-3) * time.Hour
	rate := []float64{1, 0.85, 1.2}[m.choose(3)] // a third is allowed for
	id := fmt.Sprintf("%s/%d", pod, len(m.all))
	m.all = append(m.all, start(m.cluster, m.rules, m.choose, &m.late, pod, id, skew, rate))
}

func (m *model) podNames() []string {
	var names []string
	for _, p := range m.all {
		if !slices.Contains(names, p.pod) {
			names = append(names, p.pod)
		}
	}
	return names
}

func (m *model) someProcess() *process { return m.all[m.choose(len(m.all))] }

// someActive is a process that nothing is wrong with, if there is one.
func (m *model) someActive() *process {
	var active []*process
	for _, p := range m.all {
		if p.active() && !p.cut && m.cluster.pods[p.pod] == p.podUID {
			active = append(active, p)
		}
	}
	if len(active) == 0 {
		return m.all[0]
	}
	return active[m.choose(len(active))]
}

func (m *model) itemNames() []string { return slices.Sorted(maps.Keys(m.items)) }

func (m *model) someItem() *modelItem {
	names := m.itemNames()
	return m.items[names[m.choose(len(names))]]
}

// someLock is a lock that there is; nil if there is none.
func (m *model) someLock() *v1alpha1.SyncObject {
	names := slices.Sorted(maps.Keys(m.locks))
	if len(names) == 0 {
		return nil
	}
	return m.locks[names[m.choose(len(names))]]
}

// finish lets a process come to its end.
func (p *process) finish() {
	p.crashed = true
	for _, w := range p.workers {
		p.running = w
		w.stop()
	}
	clear(p.workers)
}

// run runs the protocol, or a mutant of it, and returns what is wrong with it.
func run(t *rapid.T, r rules) (wrong string) {
	m := newModel(t, &r)
	defer func() {
		for _, p := range m.all {
			p.finish()
		}
	}()
	for range 50 + 50*m.choose(5) {
		if m.act(); m.wrong != "" {
			return m.wrong
		}
	}
	if r == (rules{}) { // a mutant breaks before that
		m.calm()
	}
	return m.wrong
}

// TestProtocol: whatever happens, there is one writer for each item, and every job ends.
func TestProtocol(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		if wrong := run(t, rules{}); wrong != "" {
			t.Fatal(wrong)
		}
	})
}

// TestMutants: without any of its checks the protocol is wrong, and TestProtocol would find out.
func TestMutants(t *testing.T) {
	writes := []string{"one writer", "one call that counts"}
	cases := map[string]struct {
		reason string
		rules  rules
		want   []string // one of these invariants breaks
	}{
		"no fence": {
			"who has lost the lock does not meet a conflict", rules{noFence: true}, []string{"one call that counts"},
		},
		"no verify": {
			"who has lost the lock reads what the next one has written, and writes on", rules{noVerify: true}, writes,
		},
		"verify first": {
			"between the look at the lock and the read another one can take over", rules{verifyFirst: true}, writes,
		},
		"reread without verify": {
			"who decides anew decides on what the next one has written", rules{rereadUnverified: true}, writes,
		},
		"export without verify": {
			"a Secret has no fence of its own", rules{exportUnverified: true}, []string{"exports"},
		},
		"writes without condition": {
			"who has lost the lock writes over what the next one has written", rules{unconditional: true}, []string{"one writer"},
		},
		"no validity": {
			"who was stopped for long begins a call before it hears of anything", rules{alwaysValid: true}, []string{"no lock without a Lease"},
		},
		"watch is trusted": {
			"the watch of Leases can be late", rules{trustWatch: true}, []string{"no wrong verdict"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			runs := rapid.Custom(func(t *rapid.T) string { return run(t, tc.rules) })
			for seed := range 5000 {
				wrong, _, broken := strings.Cut(runs.Example(seed), ":")
				if !broken {
					continue
				}
				t.Logf("%s broken at seed %d", wrong, seed)
				if !slices.Contains(tc.want, wrong) {
					t.Errorf("%s: expected one of %q to break, but %q did", tc.reason, tc.want, wrong)
				}
				return
			}
			t.Errorf("%s: expected one of %q to break, but none did", tc.reason, tc.want)
		})
	}
}
