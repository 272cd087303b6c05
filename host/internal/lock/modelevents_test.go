package lock

import (
	"fmt"
	"maps"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// act lets something happen.
func (m *model) act() {
	switch action := m.choose(44); {
	case action < 18:
		m.work()
	case action < 24:
		p := m.someProcess()
		p.hear(stream(m.choose(int(streams))), 1+m.choose(4))
	case action < 26:
		m.someProcess().tell()
	case action < 28:
		m.someProcess().find(m.podNames())
	case action < 30:
		m.pass(time.Duration(1+m.choose(3)) * time.Second)
	case action < 32:
		m.interfere()
	case action == 32:
		m.arrive()
	case action == 33:
		m.relist(m.someProcess())
	case action < 36:
		m.fail(m.someProcess())
	case action == 36:
		m.recover(m.someProcess())
	case action == 37:
		m.newJob()
	case action == 38:
		m.suspect(m.someProcess())
	case action == 39:
		m.lag(m.someProcess())
	case action < 43:
		m.duel(m.someItem().name)
	default:
		m.settleDown()
	}
}

// work takes a process some steps on.
func (m *model) work() {
	p, name := m.someProcess(), fmt.Sprintf("item-%d", m.choose(2))
	for range 1 + m.choose(6) {
		if !p.step(name) {
			return
		}
	}
}

// pass lets time pass for all.
func (m *model) pass(d time.Duration) {
	for ; d > 0; d -= time.Second {
		for _, p := range m.all {
			p.pass(time.Second)
		}
	}
}

// interfere has others write to an item or to a lock, or delete them.
func (m *model) interfere() {
	switch m.choose(6) {
	case 0:
		if lock := m.someLock(); lock != nil {
			labelled := lock.DeepCopy()
			metav1.SetMetaDataLabel(&labelled.ObjectMeta, "label", version(m.revision))
			m.putLock(labelled)
		}
	case 1:
		name := m.someItem().name
		m.deleteItem(name)
		m.createItem(name)
	case 2:
		m.clean()
	default:
		item := *m.someItem()
		item.noise++
		m.putItem(item)
	}
}

// clean deletes the locks of items that are gone, as Cleaner does.
func (m *model) clean() {
	for _, name := range slices.Sorted(maps.Keys(m.locks)) {
		if locked, ok := lockedBy(m.locks[name]); ok && m.isGone(locked) {
			m.deleteLock(name)
		}
	}
}

func (m *model) isGone(locked orphan) bool {
	item := m.items[locked.item.Name]
	return item == nil || item.uid != locked.uid
}

func (m *model) newJob() {
	if item := *m.someItem(); item.job < maxJobs {
		item.job++
		m.putItem(item)
	}
}

// arrive has a request arrive that was given up.
func (m *model) arrive() {
	if len(m.late) > 0 {
		effect := m.late[0]
		m.late = m.late[1:]
		effect()
	}
}

// fail has something go wrong with a process.
func (m *model) fail(p *process) {
	if p.crashed {
		return
	}
	m.log("%s fails", p.id)
	switch m.choose(4) {
	case 0:
		p.paused, p.excused = true, true
	case 1:
		p.cut, p.excused = true, true
	case 2:
		m.crash(p)
	default: // the pod is replaced under the same name, or the container started again
		m.replace(p)
	}
}

func (m *model) crash(p *process) {
	p.crashed = true
	p.finish()
	m.watchers = slices.DeleteFunc(m.watchers, func(w *process) bool { return w == p })
	if m.choose(2) == 0 && m.cluster.pods[p.pod] == p.podUID {
		m.deletePod(p.pod)
	}
	if m.choose(2) == 0 && len(m.all) < maxProcesses {
		m.join()
	}
}

func (m *model) replace(p *process) {
	if len(m.all) >= maxProcesses || m.cluster.pods[p.pod] != p.podUID {
		return
	}
	p.excused = true
	switch m.choose(3) {
	case 0: // the pod is gone for the API server, but its node is cut off
		p.cut = m.choose(2) == 0
		m.deletePod(p.pod)
		m.putPod(p.pod, p.podUID+"-again")
	case 1:
		m.crash(p)
		if m.cluster.pods[p.pod] != p.podUID {
			return
		}
	default:
		return
	}
	m.start(p.pod)
}

// recover has a process go on that was stopped or cut off.
func (m *model) recover(p *process) {
	if p.paused && m.choose(2) == 0 && !p.crashed && !p.cut { // it was stopped in the middle of a renewal
		p.renew(p.renewed)
	}
	p.paused, p.cut = false, false
}

// suspect has a process taken for dead that is not, or only not any more: its pod is gone, or it is stopped or cut off for long.
func (m *model) suspect(p *process) {
	if p.crashed {
		return
	}
	m.log("%s is suspected", p.id)
	p.excused = true
	switch m.choose(3) {
	case 0:
		if m.cluster.pods[p.pod] == p.podUID {
			m.deletePod(p.pod)
		}
	case 1:
		p.paused = true
		m.pass(2 * modelLease)
	default:
		p.cut = true
		m.pass(2 * modelLease)
	}
	for _, other := range m.all {
		if other == p {
			continue
		}
		other.hear(podStream, 100)
		other.hear(leaseStream, 100)
		other.find(m.podNames())
		other.tell()
	}
	if m.choose(2) == 0 {
		p.paused, p.cut = false, false
	}
}

// lag has a process hear of nothing for so long that all others look dead.
func (m *model) lag(p *process) {
	m.pass(2 * modelLease)
	p.find(m.podNames())
	p.tell()
}

// duel has a process work on an item that others write to, and another one take its lock from it in the middle of that. All of it can
// happen without, but seldom does.
func (m *model) duel(name string) {
	p, other := m.someActive(), m.someActive()
	if p == other {
		return
	}
	for range m.choose(12) {
		p.step(name)
	}
	item := *m.items[name]
	item.noise++
	m.putItem(item)
	for range m.choose(8) {
		p.step(name)
	}
	m.suspect(p)
	other.hear(lockStream, 100)
	other.hear(itemStream, 100)
	for range m.choose(16) {
		other.step(name)
	}
	p.paused, p.cut = false, false
	if m.choose(2) == 0 {
		p.hear(itemStream, 100)
	}
	for range m.choose(16) {
		p.step(name)
		if m.choose(4) == 0 {
			other.step(name)
		}
	}
}

// settleDown lets some processes hear of everything.
func (m *model) settleDown() {
	for _, p := range m.all {
		if m.choose(2) == 0 {
			for s := range streams {
				p.hear(s, 100)
			}
			p.find(m.podNames())
			p.tell()
		}
	}
}
