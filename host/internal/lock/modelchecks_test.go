package lock

import (
	"fmt"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

// check checks what must be so at any time.
func (c *cluster) check() {
	calls, able := map[types.UID]int{}, map[types.UID]int{}
	for _, p := range c.watchers {
		for _, w := range p.workers {
			if !w.calling {
				continue
			}
			mine := w.held[w.lock]
			if !p.robbed[mine] {
				calls[w.item.uid]++
			}
			item := c.items[w.name]
			if item != nil && item.uid == w.item.uid && (item.version == w.item.version || c.tenures[w.lock.name.Name].id == mine) {
				able[w.item.uid]++
			}
		}
	}
	for uid, n := range calls {
		if n > 1 {
			c.blame("one call", "%d calls for %s although nobody was taken for dead", n, uid)
		}
	}
	for uid, n := range able {
		if n > 1 {
			c.blame("one call that counts", "%d calls for %s can write their results", n, uid)
		}
	}
	c.checkHeld()
}

// checkHeld: of those who have heard of everything and have a Lease, one thinks that it holds a lock.
func (c *cluster) checkHeld() {
	for _, item := range c.items {
		holders := 0
		for _, p := range c.watchers {
			w := p.workers[item.name]
			heard := len(p.events[lockStream]) == 0 && p.active() && (w == nil || !w.releasing)
			if heard && p.view.Valid() && p.locker.Holds(Key{Plugin: modelPlugin, UID: item.uid,
				Item: types.NamespacedName{Namespace: modelNamespace, Name: item.name}}) {
				holders++
			}
		}
		if holders > 1 {
			c.blame("one holder", "%d replicas think that they hold the lock of %s", holders, item.uid)
		}
	}
}

// calm has everything go well from now on, until all jobs have ended.
func (m *model) calm() {
	m.log("calm")
	for len(m.late) > 0 {
		m.arrive()
	}
	for _, p := range m.all {
		p.paused, p.cut, p.calm = false, false, true
		if !p.crashed && (m.cluster.pods[p.pod] != p.podUID || *m.leases[p.pod].Spec.HolderIdentity != p.id) {
			m.crash(p)
		}
	}
	m.join()
	for _, p := range m.all {
		p.calm = true
	}
	for range 2 { // the jobs that there are, and then one more
		for range 40 {
			m.round()
		}
		m.clean()
		m.checkEnd()
		for _, name := range m.itemNames() {
			item := *m.items[name]
			item.job++
			m.putItem(item)
		}
	}
}

// round has each process do all that it can do, and some time pass.
func (m *model) round() {
	for _, p := range m.all {
		for s := range streams {
			p.hear(s, 1000)
		}
		p.find(m.podNames())
		p.tell()
		for i := range 2 {
			for range 200 {
				if !p.step(fmt.Sprintf("item-%d", i)) {
					break
				}
			}
		}
	}
	m.pass(time.Second)
}

func (m *model) checkEnd() {
	for _, item := range m.items {
		if !item.done() {
			m.blame("every job ends", "job %d of %s has not ended: %+v", item.job, item.uid, *item)
		}
	}
	for name, lock := range m.locks {
		locked, ok := lockedBy(lock)
		if !ok || m.isGone(locked) {
			m.blame("locks are cleaned up", "%s is left", name)
		}
		// That of a dead holder is taken by who needs it, and so is one whose holder has never heard that it has it.
		key := Key{Plugin: modelPlugin, Item: locked.item, UID: locked.uid}
		if holder := m.tenures[name].holder; holder != nil && !holder.crashed && holder.locker.Holds(key) {
			m.blame("locks are given back", "%s is still held by %s", name, lock.Spec.PodName)
		}
	}
}
