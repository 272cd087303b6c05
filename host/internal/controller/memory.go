package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/resourceversion"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// memory is what a replica remembers of the items that it has read or written itself. It saves requests, and keeps
// what is not worth a place in the status: pauses between tries, and what was reported. Forgetting an entry is always
// safe.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// subscribed are the items that a call is under way for. Their channels take one signal that they have changed.
	subscribed map[types.NamespacedName]chan struct{}
}

// entry is what is remembered of one item.
type entry struct {
	uid     types.UID
	version string // the newest resourceVersion that this replica has seen the content of; empty if it is to be read
	// item is the content of a job under way, or of one that has just ended; nil for an item that has nothing to do,
	// whose content nobody needs. It belongs to the worker that is busy with it.
	item *v1alpha1.DeployItem
	// plugin is the one that the item is a matter of, if a job is under way or has met an error.
	plugin string
	// ended: the item's job has just ended, and hooks are to say whether it is to be reconciled again.
	ended bool

	// due is when the job under way is to be reconciled again.
	due time.Time
	// woken: the job is to be reconciled again soon because of what has happened while it was being worked on.
	woken bool
	// retries counts the failures in a row.
	retries int
	// waitsFor is the plugin that has to run for the job to go on; empty if it waits for none.
	waitsFor string
	// worked is when the job under way was worked on last, and since when this replica has had it in line for a slot,
	// or has been at work on it after that; zero if another one picked it up.
	worked, since time.Time
	hooks         hookMemory
}

// hookMemory is what is remembered of an item's hooks.
type hookMemory struct {
	// asked is the hookSet.build of the hooks that have said of an item that has nothing to do whether it is to be
	// reconciled; empty if there are none.
	asked string
	// again is when hooks want the item to be reconciled again, and begins when a job begins that they ask for; zero
	// for no such time.
	again, begins time.Time
	// raised is the generation of the item for which it was reported that hooks want a job too soon.
	raised int64
	// crashes counts how often a plugin has died in the middle of a hook before there was a job to note it with.
	crashes int
	// paused is until when the item is left alone because of that.
	paused time.Time
}

func newMemory() *memory {
	return &memory{entries: map[types.NamespacedName]*entry{}, subscribed: map[types.NamespacedName]chan struct{}{}}
}

// recall returns what is remembered of an item, and whether that is still all there is to know: nothing has been
// written since.
func (m *memory) recall(key types.NamespacedName, uid types.UID, version string) (known entry, current bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || e.uid != uid {
		return entry{}, false
	}
	return *e, !newer(version, e.version)
}

// idle remembers that an item has nothing to do.
func (m *memory) idle(e entry) {
	e.hooks.crashes, e.hooks.paused = 0, time.Time{}
	m.noted(keyOf(e.item), e.item.UID, e.item.ResourceVersion, e.hooks)
}

// noted remembers that an item has nothing to do at a version.
func (m *memory) noted(key types.NamespacedName, uid types.UID, version string, hooks hookMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = &entry{uid: uid, version: version, hooks: hooks}
}

// ended remembers an item whose job has just ended, and of which hooks are to say whether it is to be reconciled again.
func (m *memory) ended(e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[keyOf(e.item)] = &entry{
		uid: e.item.UID, version: e.item.ResourceVersion, item: e.item, ended: true,
		hooks: hookMemory{again: e.hooks.again, raised: e.hooks.raised},
	}
}

// surveyed remembers that an item had nothing to do when it was listed.
func (m *memory) surveyed(item *v1alpha1.DeployItem) {
	m.noted(keyOf(item), item.UID, item.ResourceVersion, hookMemory{})
}

// idles reports whether an item that has nothing to do is to be left alone: asked are the hooks that are to have been
// asked.
func (e entry) idles(asked string, now time.Time) bool {
	return e.item == nil && e.hooks.asked == asked && (e.hooks.again.IsZero() || now.Before(e.hooks.again))
}

// state tells what is remembered of an item: its UID, empty if nothing is, and what is noted of one that has nothing
// to do for those who come next, or whether its job goes on. One that waits in line for a slot has not begun.
func (m *memory) state(key types.NamespacedName) (uid types.UID, idle string, goesOn bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	switch {
	case !ok:
		return "", "", false
	case e.item == nil && e.version != "":
		return e.uid, idleNote(e.version, e.hooks), false
	case e.item == nil, e.version == "" && contract.Finished(e.item): // it is to be read
		return e.uid, "", false
	default:
		return e.uid, "", !contract.IsQueued(e.item)
	}
}

// begin remembers that a plugin's job is being worked on, so that what happens meanwhile is not missed, and returns
// the job as it begins. It is followed by idle, underWay or forget.
func (m *memory) begin(e entry, plugin string) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.uid, e.version, e.plugin = e.item.UID, e.item.ResourceVersion, plugin
	e.waitsFor, e.woken, e.ended = "", false, false
	begun := e
	m.entries[keyOf(e.item)] = &begun
	return e
}

// underWay remembers a job that is to be reconciled again, and returns when: earlier than it says itself if it was
// woken meanwhile.
func (m *memory) underWay(e entry, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(e.item)
	if begun, ok := m.entries[key]; ok && begun.woken {
		e.due, e.waitsFor = now.Add(minPoll), ""
	}
	e.uid, e.version, e.worked, e.ended = e.item.UID, e.item.ResourceVersion, now, false
	m.entries[key] = &e
	return e.due
}

// wake makes a plugin's job under way due, but not so soon that a plugin could keep a worker busy with one item.
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

// wakeWhere makes the jobs due that something is true of, and returns their plugins by their keys.
func (m *memory) wakeWhere(
	now time.Time, which func(types.NamespacedName, *entry) bool,
) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if which(key, e) {
			e.woken, e.due, e.waitsFor = true, now, ""
			woken[key] = e.plugin
		}
	}
	return woken
}

// hookMissed remembers that a reconcile of an item came to nothing because a plugin with hooks, waitsFor, was not
// running. It returns how often in a row that was so before.
func (m *memory) hookMissed(item *v1alpha1.DeployItem, plugin, waitsFor string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	e.version, e.plugin, e.waitsFor = "", plugin, waitsFor
	e.retries++
	return e.retries - 1
}

// hookCrashed counts that a plugin has died in the middle of a hook for an item. With the last of limit times, and
// with each that follows, the item is to be left alone until a time, and it reports that.
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

// entryOf returns what is remembered of an item, if only that it is there. memory.mu must be held.
func (m *memory) entryOf(item *v1alpha1.DeployItem) *entry {
	e, ok := m.entries[keyOf(item)]
	if !ok || e.uid != item.UID {
		e = &entry{uid: item.UID}
		m.entries[keyOf(item)] = e
	}
	return e
}

// subscribe returns a channel that gets a signal when the item may have changed, and what ends that.
func (m *memory) subscribe(key types.NamespacedName) (signals <-chan struct{}, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	channel := make(chan struct{}, 1)
	m.subscribed[key] = channel
	return channel, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		delete(m.subscribed, key)
	}
}

// changed tells the call that is under way for an item that the item may have changed.
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

// size is of how many items something is remembered.
func (m *memory) size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// forget drops what is remembered of an item.
func (m *memory) forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

func keyOf(item *v1alpha1.DeployItem) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}

// newer reports whether version a is newer than b. Versions that cannot be compared count as newer, which costs a read.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
