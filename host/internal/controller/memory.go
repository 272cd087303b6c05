package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/job"
	"github.com/pergola-deploy/pergola/host/internal/pluginhook"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// memory is the part of the state of items that neither the cache nor the status has: the job that this replica works
// on, pauses between retries, and the next time of hooks. An idle item without hooks has no entry. It is always safe to
// forget an entry: the job goes on from the status.
type memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*entry
	// subscribed are the items for which a call is running. Each channel takes one signal that the item has changed.
	subscribed map[types.NamespacedName]chan struct{}
}

// state is the state of an item in this replica.
type state string

// The states of an item. The lock of the item is kept in stateRunning and stateEnded.
const (
	stateUnknown state = ""
	stateIdle    state = "idle"    // nothing to do at the version
	stateQueued  state = "queued"  // the job waits for its pick-up or for a slot
	stateRunning state = "running" // the job was picked up
	stateEnded   state = "ended"   // the job has ended; ShouldReconcile hooks come next
)

// entry is the memory of one item.
type entry struct {
	uid   types.UID
	state state
	// version is the newest resourceVersion that this replica has read or written.
	version string
	// outdated: the item has to be read, whatever version the cache has. It has a version that this replica has not seen,
	// or a hook could not be asked.
	outdated bool
	jobMemory
	hooks hookMemory
}

// jobMemory is the memory of a job.
type jobMemory struct {
	// plugin is the plugin of a job that is queued or running, or has met an error.
	plugin string
	// due is when to reconcile the job again.
	due time.Time
	// woken: something has happened during a reconcile, so that the job is to be reconciled again soon.
	woken bool
	// retries counts the errors in a row.
	retries int
	// waitsFor is the plugin that has to run before the job can go on; empty for none.
	waitsFor string
	// worked is when the job was reconciled last. since is when this replica has queued it for a slot, or, once it has
	// one, has begun it; zero if another replica has.
	worked, since time.Time
}

// isJob reports whether a job is queued or running here, or has just ended.
func (e entry) isJob() bool {
	return e.state == stateQueued || e.state == stateRunning || e.state == stateEnded
}

// knows reports whether the entry is at least as new as a version of the item.
func (e entry) knows(version string) bool {
	return e.state != stateUnknown && !e.outdated && !contract.Newer(version, e.version)
}

// hookMemory is what is remembered of the hooks for an item.
type hookMemory struct {
	// asked is the pluginhook.Set.Asking of the ShouldReconcile hooks that ran for the idle item; empty for none.
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

// settled reports whether no ShouldReconcile hook has to be asked, and no hook wants the item again by now.
func (m hookMemory) settled(hooks pluginhook.Set, again, now time.Time) bool {
	asked := m.asked == hooks.Asking() || !hooks.Has(sdkhook.ShouldReconcile)
	return asked && (again.IsZero() || now.Before(again))
}

// isEmpty reports whether nothing is remembered.
func (m hookMemory) isEmpty() bool { return m == (hookMemory{}) }

func newMemory() *memory {
	return &memory{entries: map[types.NamespacedName]*entry{}, subscribed: map[types.NamespacedName]chan struct{}{}}
}

// recall returns the memory of an item; the zero entry if there is none.
func (m *memory) recall(key types.NamespacedName, uid types.UID) entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.uid == uid {
		return *e
	}
	return entry{}
}

// idle remembers that there is nothing to do for an item at its version.
func (m *memory) idle(item *v1alpha1.DeployItem, hooks hookMemory) {
	hooks.crashes, hooks.paused = 0, time.Time{}
	m.set(keyOf(item), entry{uid: item.UID, state: stateIdle, version: item.ResourceVersion, hooks: hooks})
}

// finished remembers an item whose job has just ended, and for which ShouldReconcile hooks are to run.
func (m *memory) finished(item *v1alpha1.DeployItem, hooks hookMemory) {
	m.set(keyOf(item), entry{
		uid: item.UID, state: stateEnded, version: item.ResourceVersion,
		hooks: hookMemory{again: hooks.again, raised: hooks.raised},
	})
}

func (m *memory) set(key types.NamespacedName, e entry) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.entries[key] = &e
}

// lockState is what unlock needs to know of an item: its UID, empty if nothing is remembered; the version at which it
// is idle, empty if it is not; and whether its lock is kept.
func (m *memory) lockState(key types.NamespacedName) (uid types.UID, idleAt string, kept bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	switch {
	case !ok:
		return "", "", false
	case e.state == stateIdle && !e.outdated:
		return e.uid, e.version, false
	default:
		return e.uid, "", e.state == stateRunning || e.state == stateEnded && !e.outdated
	}
}

// jobState is the state of an item with a job. A job that is queued for a slot has no lock.
func jobState(item *v1alpha1.DeployItem) state {
	switch {
	case contract.Finished(item):
		return stateEnded
	case contract.PickedUp(item) && !contract.IsQueued(item):
		return stateRunning
	default:
		return stateQueued
	}
}

// begin remembers that a job is being reconciled, so that nothing that happens meanwhile is missed, and returns the
// entry to go on with. Then comes idle, finished, requeue or forget.
func (m *memory) begin(item *v1alpha1.DeployItem, e entry, plugin string) entry {
	e.uid, e.version, e.outdated, e.state = item.UID, item.ResourceVersion, false, jobState(item)
	e.plugin, e.waitsFor, e.woken = plugin, "", false
	m.set(keyOf(item), e)
	return e
}

// requeue remembers a job, and returns when to reconcile it again: earlier than e.due if it was woken.
func (m *memory) requeue(item *v1alpha1.DeployItem, e entry, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := keyOf(item)
	if begun, ok := m.entries[key]; ok && begun.woken {
		e.due, e.waitsFor = now.Add(job.MinPoll), ""
	}
	e.uid, e.version, e.outdated, e.state = item.UID, item.ResourceVersion, false, jobState(item)
	e.worked = now
	m.entries[key] = &e
	return e.due
}

// wake makes a running job of a plugin due, but not so soon that a plugin could occupy a worker with one item.
func (m *memory) wake(key types.NamespacedName, plugin string, now time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.isJob() && e.plugin == plugin {
		e.woken, e.due = true, now
		if earliest := e.worked.Add(job.MinPoll); earliest.After(now) {
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
	e.outdated, e.plugin, e.waitsFor = true, plugin, waitsFor
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

// outdated has an item read again, and keeps the rest of its memory. job is the item as its job has left it; nil for
// none.
func (m *memory) outdated(key types.NamespacedName, job *v1alpha1.DeployItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		return
	}
	e.outdated = true
	if job != nil {
		e.state = jobState(job)
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
