package controller

import (
	"cmp"
	"slices"
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
	// whose content nobody needs.
	item *v1alpha1.DeployItem
	// ended: the item's job has just ended, and hooks are to say whether it is to be reconciled again.
	ended bool
	// asked is the hooks.Build of the hooks that have said of an item that has nothing to do whether it is to be
	// reconciled; empty if there are none.
	asked string
	// again is when hooks want the item to be looked at again; zero for no such time.
	again time.Time
	// begins is when a job begins that hooks ask for; zero if that is not known.
	begins time.Time
	// hookCrashes counts how often a plugin has died in the middle of a hook before there was a job to note it with.
	hookCrashes int
	// missed: hooks could not be asked because a plugin was not running.
	missed bool
	// leftAlone is until when the item is left alone because of that.
	leftAlone time.Time
	// raised is the generation of the item for which it was reported that hooks want a job too soon.
	raised int64
	// targetName and contextName are those of what the item uses, and itemType is its type: the item itself belongs
	// to the worker that is busy with it.
	targetName, contextName string
	itemType                v1alpha1.DeployItemType
	// pluginName is the plugin that the job under way is a matter of.
	pluginName string
	// worked is when the job under way was worked on last.
	worked time.Time
	// queued is when this replica has picked the job up to wait for its turn, and began when it has begun to work on
	// it; zero if it was another one.
	queued, began time.Time
	// due is when the job under way is to be looked at again; ignored for an item that has nothing to do.
	due time.Time
	// retries counts the failures in a row of the job under way, conflicts those of looks that came to nothing
	// because the item had changed.
	retries, conflicts int
	// reported is the unknown operation that was reported last.
	reported string
	// waitsForPlugin: the job goes on when its plugin runs again.
	waitsForPlugin bool
	// woken: the plugin said that the item may have moved on while it was being worked on.
	woken bool
	// turn: a slot came free for the item while it was being worked on.
	turn bool
	// pluginRan: the plugin came to run while the item was being worked on.
	pluginRan bool
}

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
	m.entries[key] = &entry{
		uid: e.item.UID, version: version, reported: e.reported,
		asked: e.asked, again: e.again, begins: e.begins, raised: e.raised,
	}
}

// ended remembers an item whose job has just ended, and of which hooks are to say whether it is to be reconciled again.
func (m *memory) ended(e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[keyOf(e.item)] = &entry{
		uid: e.item.UID, version: e.item.ResourceVersion, item: e.item, ended: true,
		reported: e.reported, again: e.again, raised: e.raised,
	}
}

// settled remembers that an item has nothing to do at a version, as another replica has noted.
func (m *memory) settled(key types.NamespacedName, uid types.UID, version, asked string, again time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = &entry{uid: uid, version: version, asked: asked, again: again, begins: again}
}

// idles tells whether an item that has nothing to do is to be left alone: asked are the hooks that are to have been
// asked.
func (e entry) idles(asked string, now time.Time) bool {
	return e.item == nil && e.asked == asked && (e.again.IsZero() || now.Before(e.again))
}

// state tells what is remembered of an item: its UID, empty if nothing is, and what is noted of one that has nothing
// to do for those who come next, or whether its job goes on. One that waits in line for its turn has not begun.
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
		return e.uid, restingNote(e.version, e.asked, e.again), false
	}
	return e.uid, "", !contract.IsQueued(e.item)
}

// surveyed remembers that an item had nothing to do when it was listed, unless it has been looked at in the meantime:
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
	e.uid, e.version, e.pluginName = e.item.UID, e.item.ResourceVersion, pluginName
	e.waitsForPlugin, e.woken, e.pluginRan = false, false, false
	e.turn, e.missed, e.ended, e.itemType = false, false, false, e.item.Spec.Type
	e.targetName, e.contextName = "", cmp.Or(e.item.Spec.Context, v1alpha1.DefaultContextName)
	if e.item.Spec.Target != nil {
		e.targetName = e.item.Spec.Target.Name
	}
	begun := e
	m.entries[keyOf(e.item)] = &begun
	return e
}

// underWay remembers a job that is to be looked at again, and returns when: earlier than it says itself if it was woken
// meanwhile.
func (m *memory) underWay(e entry, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(e.item)
	if begun, ok := m.entries[key]; ok && (begun.woken || begun.pluginRan && e.waitsForPlugin) {
		e.due, e.waitsForPlugin = now.Add(minPoll), false
	}
	if begun, ok := m.entries[key]; ok && begun.turn {
		e.due = now
	}
	e.uid, e.version, e.worked, e.conflicts, e.ended = e.item.UID, e.item.ResourceVersion, now, 0, false
	m.entries[key] = &e
	return e.due
}

// wake makes a plugin's job under way due, but not so soon that a plugin could keep a worker busy with one item.
func (m *memory) wake(key types.NamespacedName, pluginName string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.item != nil && e.pluginName == pluginName {
		e.due, e.woken = now, true
		if earliest := e.worked.Add(minPoll); earliest.After(now) {
			e.due = earliest
		}
	}
}

// turn makes a plugin's job due that waited for a slot.
func (m *memory) turn(key types.NamespacedName, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		e.due, e.turn = now, true
	}
}

// mended makes all jobs due that have met an error and use an object that has just come or changed, and returns their
// plugins by their keys.
func (m *memory) mended(ref reference, now time.Time) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.retry(now, func(key types.NamespacedName, e *entry) bool {
		uses := ref.kind == kindTarget && e.targetName == ref.name ||
			ref.kind == kindContext && e.contextName == ref.name
		return uses && key.Namespace == ref.namespace
	})
}

// retry makes those jobs due that have met an error, and returns their plugins by their keys.
func (m *memory) retry(now time.Time, which func(types.NamespacedName, *entry) bool) map[types.NamespacedName]string {
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if e.item == nil || !which(key, e) {
			continue
		}
		e.woken = true // should it be worked on right now
		if e.retries > 0 {
			e.due = now
			woken[key] = e.pluginName
		}
	}
	return woken
}

// hooksRun makes all jobs of some types due that have met an error, and returns their plugins by their keys.
func (m *memory) hooksRun(itemTypes []v1alpha1.DeployItemType, now time.Time) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := m.retry(now, func(_ types.NamespacedName, e *entry) bool { return slices.Contains(itemTypes, e.itemType) })
	for key, e := range m.entries {
		if e.missed && slices.Contains(itemTypes, e.itemType) {
			e.missed, e.due = false, now
			woken[key] = e.pluginName
		}
	}
	return woken
}

// hookMissed remembers that a look at an item came to nothing because a plugin with hooks was not running.
func (m *memory) hookMissed(item *v1alpha1.DeployItem, pluginName string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	e.missed, e.pluginName, e.itemType = true, pluginName, item.Spec.Type
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
		e.pluginRan = true
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
	if e.hookCrashes++; e.hookCrashes < limit {
		return false
	}
	e.leftAlone = until
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
	if (e.asked != "" || e.ended) && extensionsChanged(before, after) {
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

// newer tells whether version a is newer than b. Versions that cannot be compared count as newer, which costs a read.
func newer(a, b string) bool {
	order, err := resourceversion.CompareResourceVersion(a, b)
	return err != nil || order > 0
}
