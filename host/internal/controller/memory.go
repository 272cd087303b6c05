package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// memory is what a replica remembers of the items that it has read or written. It saves requests, and has what the
// status has no field for: pauses between retries, and what was reported. It is always safe to forget an entry.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// subscribed are the items for which a call is running. Each channel takes one signal that the item has changed.
	subscribed map[types.NamespacedName]chan struct{}
}

// entry is what is remembered of one item.
type entry struct {
	uid     types.UID
	version string // the newest resourceVersion whose content this replica knows; empty if the item has to be read
	// item is the content of an item whose job is running or has just ended, or that has arrived; nil for an idle item,
	// whose content nobody needs. It belongs to the worker that reconciles the item.
	item *v1alpha1.DeployItem
	// arrived: the item is as it came by a list or watch, for the next reconcile.
	arrived bool
	// unscheduled: the idle item has no schedule; see hookSet.
	unscheduled bool
	// plugin is the plugin of a job that is running or has met an error.
	plugin string

	// due is when to reconcile the running job again.
	due time.Time
	// woken: something has happened during a reconcile, so that the job is to be reconciled again soon.
	woken bool
	// retries counts the errors in a row.
	retries int
	// waitsFor is the plugin that has to run before the job can go on; empty for none.
	waitsFor string
	// worked is when the running job was reconciled last. since is when this replica has queued it for a slot, or, once
	// it has one, has begun it; zero if another replica has.
	worked, since time.Time
	hooks         hookMemory
}

// hookMemory is what is remembered of the hooks for an item.
type hookMemory struct {
	// asked is the hookSet.asking of the ShouldReconcile hooks that ran for the idle item, or that have no opinion about
	// it; empty for none.
	asked string
	// again is when hooks want the item to be reconciled again, and begins when the job begins that they request; zero
	// for no such time.
	again, begins time.Time
	// raised is the generation of the item for which it was reported that hooks request jobs too often.
	raised int64
	// crashes counts how often a plugin has crashed during a hook before there was a job that could note it.
	crashes int
	// paused is until when the item is skipped because of these crashes.
	paused time.Time
}

func newMemory() *memory {
	return &memory{entries: map[types.NamespacedName]*entry{}, subscribed: map[types.NamespacedName]chan struct{}{}}
}

// recall returns what is remembered of an item, and whether the item has not changed since.
func (m *memory) recall(key types.NamespacedName, uid types.UID, version string) (known entry, current bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || e.uid != uid {
		return entry{}, false
	}
	return *e, !contract.Newer(version, e.version)
}

// take is recall for whoever looks at the item next: what has arrived is handed over.
func (m *memory) take(key types.NamespacedName, uid types.UID, version string) (known entry, current bool) {
	known, current = m.recall(key, uid, version)
	if known.arrived {
		m.mu.Lock()
		defer m.mu.Unlock()
		if e, ok := m.entries[key]; ok && e.item == known.item {
			e.version, e.item, e.arrived = "", nil, false
		}
	}
	return known, current
}

// idle remembers that there is nothing to do for an item.
func (m *memory) idle(e entry) {
	e.hooks.crashes, e.hooks.paused = 0, time.Time{}
	m.idleAt(keyOf(e.item), entry{
		uid: e.item.UID, version: e.item.ResourceVersion, unscheduled: unscheduled(e.item), hooks: e.hooks,
	})
}

// idleAt remembers that there is nothing to do for an item, of which no more is known than that.
func (m *memory) idleAt(key types.NamespacedName, idle entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = &idle
}

// foundIdle remembers that there is nothing to do for an item as it was listed, unless something is remembered of it.
func (m *memory) foundIdle(item *v1alpha1.DeployItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[keyOf(item)]; !ok {
		m.entries[keyOf(item)] = &entry{uid: item.UID, version: item.ResourceVersion, unscheduled: unscheduled(item)}
	}
}

// arrived remembers an item as it came, so that it need not be read, unless more is known of it.
func (m *memory) arrived(item *v1alpha1.DeployItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, ok := m.entries[keyOf(item)]
	switch {
	case !ok || before.uid != item.UID:
		m.entries[keyOf(item)] = &entry{uid: item.UID, version: item.ResourceVersion, item: item, arrived: true}
	case (before.item == nil || before.arrived) && contract.Newer(item.ResourceVersion, before.version):
		m.entries[keyOf(item)] = &entry{
			uid: item.UID, version: item.ResourceVersion, item: item, arrived: true, hooks: before.hooks,
		}
	}
}

// finished remembers an item whose job has just ended, and for which ShouldReconcile hooks are to run.
func (m *memory) finished(e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[keyOf(e.item)] = &entry{
		uid: e.item.UID, version: e.item.ResourceVersion, item: e.item,
		hooks: hookMemory{again: e.hooks.again, raised: e.hooks.raised},
	}
}

// isIdle reports whether to skip an item because there is nothing to do for it. hooks are those for its type.
func (e entry) isIdle(hooks hookSet, now time.Time) bool {
	hooks.unscheduled = e.unscheduled
	asked := e.hooks.asked == hooks.asking() || !hooks.has(sdkhook.ShouldReconcile)
	return e.item == nil && asked && (e.hooks.again.IsZero() || now.Before(e.hooks.again))
}

// lockState is what unlock needs to know of an item: its UID, empty if nothing is remembered; the note for others if
// the item is idle; and whether its job goes on, so that the lock is kept. A job that is queued for a slot has no lock.
func (m *memory) lockState(key types.NamespacedName) (uid types.UID, note string, goesOn bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	switch {
	case !ok:
		return "", "", false
	case e.item == nil && e.version != "":
		return e.uid, idleNote(e.version, e.hooks), false
	case e.item == nil, e.arrived, e.version == "" && contract.Finished(e.item): // it has to be read
		return e.uid, "", false
	default:
		return e.uid, "", contract.Finished(e.item) || contract.PickedUp(e.item) && !contract.IsQueued(e.item)
	}
}

// begin remembers that a job is being reconciled, so that nothing that happens meanwhile is missed, and returns the
// entry to go on with. Then comes idle, finished, requeue or forget.
func (m *memory) begin(e entry, plugin string) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.uid, e.version, e.plugin = e.item.UID, e.item.ResourceVersion, plugin
	e.waitsFor, e.woken = "", false
	begun := e
	m.entries[keyOf(e.item)] = &begun
	return e
}

// requeue remembers a running job, and returns when to reconcile it again: earlier than e.due if it was woken.
func (m *memory) requeue(e entry, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(e.item)
	if begun, ok := m.entries[key]; ok && begun.woken {
		e.due, e.waitsFor = now.Add(minPoll), ""
	}
	e.uid, e.version, e.worked = e.item.UID, e.item.ResourceVersion, now
	m.entries[key] = &e
	return e.due
}

// wake makes a running job of a plugin due, but not so soon that a plugin could occupy a worker with one item.
func (m *memory) wake(key types.NamespacedName, plugin string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.item != nil && e.plugin == plugin {
		e.woken, e.due = true, now
		if earliest := e.worked.Add(minPoll); earliest.After(now) {
			e.due = earliest
		}
	}
}

// wakeWhere makes the jobs due that which selects, and returns their plugins by item.
func (m *memory) wakeWhere(now time.Time, which func(*entry) bool) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if which(e) {
			woken[key] = e.wake(now)
		}
	}
	return woken
}

// wakeFailing makes the jobs of items due that have met an error, and returns their plugins by item. No other item is
// looked at: there may be many.
func (m *memory) wakeFailing(now time.Time, keys []types.NamespacedName) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for _, key := range keys {
		if e, ok := m.entries[key]; ok && e.retries > 0 {
			woken[key] = e.wake(now)
		}
	}
	return woken
}

// wake makes the job due, and returns its plugin. memory.mu must be held.
func (e *entry) wake(now time.Time) (plugin string) {
	e.woken, e.due, e.waitsFor = true, now, ""
	return e.plugin
}

// hookMissed remembers that a reconcile could not go on because a plugin with hooks, waitsFor, was not running. It
// returns how often in a row that was so before.
func (m *memory) hookMissed(item *v1alpha1.DeployItem, plugin, waitsFor string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	e.version, e.plugin, e.waitsFor = "", plugin, waitsFor
	e.retries++
	return e.retries - 1
}

// hookCrashed counts that a plugin has crashed during a hook for an item. From the limit on it pauses the item until a
// time, and returns true.
func (m *memory) hookCrashed(item *v1alpha1.DeployItem, limit int, until time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	if e.hooks.crashes++; e.hooks.crashes < limit {
		return false
	}
	e.hooks.paused = until
	return true
}

// entryOf returns the entry of an item, and adds one if there is none. memory.mu must be held.
func (m *memory) entryOf(item *v1alpha1.DeployItem) *entry {
	e, ok := m.entries[keyOf(item)]
	if !ok || e.uid != item.UID {
		e = &entry{uid: item.UID}
		m.entries[keyOf(item)] = e
	}
	return e
}

// subscribe returns a channel that gets a signal when the item may have changed, and a function that ends that, but not
// the subscription of a later call: that of another plugin, for an item of the name that was created anew.
func (m *memory) subscribe(key types.NamespacedName) (signals <-chan struct{}, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	channel := make(chan struct{}, 1)
	m.subscribed[key] = channel
	return channel, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.subscribed[key] == channel {
			delete(m.subscribed, key)
		}
	}
}

// changed signals to the running call for an item that the item may have changed.
func (m *memory) changed(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.subscribed[key] <- struct{}{}: // of nil, if there is no call
	default: // there is a signal already
	}
}

// outdated has an item read again, and keeps what is remembered besides.
func (m *memory) outdated(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		e.version = ""
	}
}

// size is the number of items that are remembered.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// forgetGone forgets an item that is gone, but not another one of its name.
func (m *memory) forgetGone(key types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.uid == uid {
		delete(m.entries, key)
	}
}

func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

func keyOf(item *v1alpha1.DeployItem) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}
