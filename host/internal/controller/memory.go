package controller

import (
	"sync"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	version string // the newest resourceVersion that this replica has seen the content of
	// item is the content of a job under way, or of one that has just ended; nil for an item that has nothing to do,
	// whose content nobody needs. It belongs to the worker that is busy with it, which is why its type is here, too.
	item     *v1alpha1.DeployItem
	itemType v1alpha1.DeployItemType
	// pluginName is the plugin that the job under way is a matter of.
	pluginName string
	// ended: the item's job has just ended, and hooks are to say whether it is to be reconciled again.
	ended bool

	// due is when the job under way is to be reconciled again; ignored for an item that has nothing to do.
	due time.Time
	// retries counts the failures in a row of the job under way, conflicts those of reconciles that came to nothing
	// because the item had changed.
	retries, conflicts int
	// waitsForPlugin: the job goes on when its plugin runs again.
	waitsForPlugin bool
	// woken is what has happened to the item while it was being worked on.
	woken wake
	// worked is when the job under way was worked on last, and since when this replica has had it in line for a slot,
	// or has been at work on it after that; zero if another one picked it up.
	worked, since time.Time
	// reported is the unknown operation that was reported last.
	reported string
	hooks    hookMemory
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
	// crashes counts how often a plugin has died in the middle of a hook before there was a job to note it with, and
	// paused is until when the item is left alone because of that.
	crashes int
	paused  time.Time
}

// wake is why an item that is being worked on is to be reconciled again soon; a later one counts more.
type wake int

const (
	notWoken   wake = iota
	pluginRuns      // which counts for a job that waits for that
	mayGoOn         // the plugin says so, or what the job has lacked has come
	hasSlot         // one is kept for it
)

func newMemory() *memory {
	return &memory{entries: map[types.NamespacedName]*entry{}, subscribed: map[types.NamespacedName]chan struct{}{}}
}

// recall returns what is remembered of an item, if that is still all there is to know: nothing has been written since.
func (m *memory) recall(key types.NamespacedName, uid types.UID, version string) (entry, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || e.uid != uid || newer(version, e.version) {
		return entry{}, false
	}
	return *e, true
}

// previous returns what is remembered of an item even if it has changed since.
func (m *memory) previous(key types.NamespacedName, uid types.UID) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.uid == uid {
		return *e
	}
	return entry{}
}

// idle remembers that an item has nothing to do at a version.
func (m *memory) idle(e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	key, version := keyOf(e.item), e.item.ResourceVersion
	before, ok := m.entries[key]
	if ok && before.ended && before.uid == e.item.UID && before.version != "" && newer(before.version, version) {
		version = before.version // advance has seen what has happened since
	}
	e.hooks.crashes, e.hooks.paused = 0, time.Time{}
	m.entries[key] = &entry{uid: e.item.UID, version: version, reported: e.reported, hooks: e.hooks}
}

// ended remembers an item whose job has just ended, and of which hooks are to say whether it is to be reconciled again.
func (m *memory) ended(e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[keyOf(e.item)] = &entry{
		uid: e.item.UID, version: e.item.ResourceVersion, item: e.item, ended: true, reported: e.reported,
		hooks: hookMemory{again: e.hooks.again, raised: e.hooks.raised},
	}
}

// noted remembers that an item has nothing to do at a version, as another replica has noted with its lock.
func (m *memory) noted(key types.NamespacedName, uid types.UID, version string, hooks hookMemory) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = &entry{uid: uid, version: version, hooks: hooks}
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
	if !ok {
		return "", "", false
	}
	if e.version == "" && (e.item == nil || contract.Finished(e.item)) { // it is to be read
		return e.uid, "", false
	}
	if e.item == nil && e.reported != "" { // who comes next may have to report it, too
		return e.uid, "", false
	}
	if e.item == nil {
		return e.uid, idleNote(e.version, e.hooks), false
	}
	return e.uid, "", !contract.IsQueued(e.item)
}

// surveyed remembers that an item had nothing to do when it was listed, unless it has been reconciled in the meantime:
// what is remembered of that may be newer, or a job under way.
func (m *memory) surveyed(item *v1alpha1.DeployItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.entries[keyOf(item)]; !ok {
		m.entries[keyOf(item)] = &entry{uid: item.UID, version: item.ResourceVersion}
	}
}

// begin remembers that a plugin's job is being worked on, so that what happens meanwhile is not missed, and returns
// the job as it begins. It is followed by idle, underWay or forget.
func (m *memory) begin(e entry, pluginName string) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	e.uid, e.version, e.itemType, e.pluginName = e.item.UID, e.item.ResourceVersion, e.item.Spec.Type, pluginName
	e.waitsForPlugin, e.woken, e.ended = false, notWoken, false
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
	if begun, ok := m.entries[key]; ok {
		switch {
		case begun.woken == hasSlot:
			e.due = now
		case begun.woken == mayGoOn, begun.woken == pluginRuns && e.waitsForPlugin:
			e.due, e.waitsForPlugin = now.Add(minPoll), false
		}
	}
	e.uid, e.version, e.worked, e.conflicts, e.ended = e.item.UID, e.item.ResourceVersion, now, 0, false
	m.entries[key] = &e
	return e.due
}

func (e *entry) wake(why wake) { e.woken = max(e.woken, why) }

// wake makes a plugin's job under way due, but not so soon that a plugin could keep a worker busy with one item.
func (m *memory) wake(key types.NamespacedName, pluginName string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.item != nil && e.pluginName == pluginName {
		e.wake(mayGoOn)
		e.due = now
		if earliest := e.worked.Add(minPoll); earliest.After(now) {
			e.due = earliest
		}
	}
}

// slotKept makes a plugin's job due for which a slot is kept.
func (m *memory) slotKept(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		e.wake(hasSlot)
		e.due = now
	}
}

// retry makes those jobs due that have met an error, and returns their plugins by their keys.
func (m *memory) retry(now time.Time, which func(types.NamespacedName, *entry) bool) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if !which(key, e) {
			continue
		}
		e.wake(mayGoOn) // should it be worked on right now
		if e.retries > 0 {
			e.due = now
			woken[key] = e.pluginName
		}
	}
	return woken
}

// hookMissed remembers that a reconcile of an item came to nothing because a plugin with hooks was not running.
func (m *memory) hookMissed(item *v1alpha1.DeployItem, pluginName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	e.retries, e.pluginName, e.itemType = max(e.retries, 1), pluginName, item.Spec.Type
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

// wakeAll makes all jobs due that wait for one of the plugins that run, and returns their plugins by their keys.
func (m *memory) wakeAll(running map[string]bool, now time.Time) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if !running[e.pluginName] {
			continue
		}
		e.wake(pluginRuns)
		if e.waitsForPlugin {
			e.due, e.waitsForPlugin = now, false
			woken[key] = e.pluginName
		}
	}
	return woken
}

// outdated has an item read again, and keeps what is remembered besides. It returns how often in a row that was so
// before.
func (m *memory) outdated(key types.NamespacedName) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		return 0
	}
	e.version = ""
	e.conflicts++
	return e.conflicts - 1
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

// advance keeps an item idle over an event that cannot have given it anything to do, and reports whether it could:
// the event shows a single write to the item's metadata, such as a label. The status, where jobs are set, is written
// by itself.
func (m *memory) advance(before, after *metav1.PartialObjectMetadata) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[types.NamespacedName{Namespace: after.Namespace, Name: after.Name}]
	if !ok || e.item != nil && !e.ended || e.uid != after.UID {
		return false
	}
	if !newer(after.ResourceVersion, e.version) {
		return true
	}
	if (e.hooks.asked != "" || e.ended) && extensionsChanged(before, after) {
		return false
	}
	if e.version != before.ResourceVersion || !onlyMetadataChanged(before, after) {
		return false
	}
	e.version = after.ResourceVersion
	return true
}

func keyOf(item *v1alpha1.DeployItem) types.NamespacedName {
	return types.NamespacedName{Namespace: item.Namespace, Name: item.Name}
}

// newer reports whether version a is newer than b. Versions that cannot be compared count as newer, which costs a read.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
