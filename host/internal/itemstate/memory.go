// Package itemstate has the state of DeployItems between two reconciles, as far as neither the cache nor their status
// has it. Memory has the states of jobs and hooks, Contents the items with work in full. Both save requests only: it is
// always safe to forget an entry, and the job goes on from the status.
package itemstate

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Memory has the entries of items: jobs of this replica, pauses between retries, and the next time of hooks. An idle
// item without hooks has no entry. It is safe for concurrent use.
type Memory struct {
	mu      sync.Mutex
	entries map[types.NamespacedName]*Entry
	// subscribed are the items with a running call. Each channel takes one signal of a change.
	subscribed map[types.NamespacedName]chan struct{}
}

// NewMemory returns an empty Memory.
func NewMemory() *Memory {
	return &Memory{entries: map[types.NamespacedName]*Entry{}, subscribed: map[types.NamespacedName]chan struct{}{}}
}

// Recall returns the entry of an item; the zero Entry if there is none.
func (m *Memory) Recall(key types.NamespacedName, uid types.UID) Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.UID == uid {
		return *e
	}
	return Entry{}
}

// Last returns the entry of the item of a name, whatever its UID; the zero Entry if there is none.
func (m *Memory) Last(key types.NamespacedName) Entry {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok {
		return *e
	}
	return Entry{}
}

// SetIdle remembers that there is nothing to do for an item at its version. It reports whether a wake-up has come for
// its job since the beginning of its last run.
func (m *Memory) SetIdle(item *v1alpha1.DeployItem, hooks Hooks) (woken bool) {
	hooks.Crashes, hooks.Paused = 0, time.Time{}
	return m.set(client.ObjectKeyFromObject(item), Entry{
		UID: item.UID, State: Idle, Version: item.ResourceVersion, Hooks: hooks,
	})
}

// KeepIdle remembers what is known of an item with nothing to do before its next hooks.
func (m *Memory) KeepIdle(item *v1alpha1.DeployItem, known Entry) {
	m.set(client.ObjectKeyFromObject(item), Entry{
		UID: item.UID, State: Idle, Version: known.Version, Hooks: known.Hooks,
	})
}

// SetEnded remembers an item after the end of its job and before its ShouldReconcile hooks. It reports as SetIdle does.
func (m *Memory) SetEnded(item *v1alpha1.DeployItem, hooks Hooks) (woken bool) {
	return m.set(client.ObjectKeyFromObject(item), Entry{
		UID: item.UID, State: Ended, Version: item.ResourceVersion,
		Hooks: Hooks{Again: hooks.Again, Raised: hooks.Raised},
	})
}

// set reports whether a job of the entry before was woken.
func (m *Memory) set(key types.NamespacedName, e Entry) (woken bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	before, known := m.entries[key]
	m.entries[key] = &e
	return known && before.Woken
}

// Begin remembers a job at the beginning of its run, and returns its entry. SetIdle, SetEnded, Requeue or Forget
// follow. Between them no event is missed.
func (m *Memory) Begin(item *v1alpha1.DeployItem, e Entry, plugin string) Entry {
	e.see(item)
	e.Plugin, e.WaitsFor, e.Woken = plugin, "", false
	m.set(client.ObjectKeyFromObject(item), e)
	return e
}

// Requeue remembers a job, and returns the time of its next reconcile: earlier than e.Due if it was woken meanwhile.
func (m *Memory) Requeue(item *v1alpha1.DeployItem, e Entry, now time.Time) time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	key := client.ObjectKeyFromObject(item)
	if begun, ok := m.entries[key]; ok && begun.Woken {
		e.Due, e.WaitsFor = now.Add(contract.MinPoll), ""
	}
	e.see(item)
	e.Worked = now
	m.entries[key] = &e
	return e.Due
}

// Wake makes a job of a plugin due. It reports whether there is one.
func (m *Memory) Wake(key types.NamespacedName, plugin string, now time.Time) (isJob bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok || !e.IsJob() || e.Plugin != plugin {
		return false
	}
	e.Woken, e.Due = true, now
	// A plugin that wakes an item all the time gets no worker for it alone.
	if earliest := e.Worked.Add(contract.MinPoll); earliest.After(now) {
		e.Due = earliest
	}
	return true
}

// WakeWhere makes the selected jobs due, and returns their plugins by item.
func (m *Memory) WakeWhere(now time.Time, selects func(*Entry) bool) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for key, e := range m.entries {
		if selects(e) {
			woken[key] = e.wake(now)
		}
	}
	return woken
}

// WakeFailing makes the jobs of some items due if they have met an error, and returns their plugins by item.
func (m *Memory) WakeFailing(now time.Time, keys []types.NamespacedName) map[types.NamespacedName]string {
	m.mu.Lock()
	defer m.mu.Unlock()
	woken := map[types.NamespacedName]string{}
	for _, key := range keys { // and not all entries: there may be many
		if e, ok := m.entries[key]; ok && e.Retries > 0 {
			woken[key] = e.wake(now)
		}
	}
	return woken
}

// HookMissed remembers a reconcile without its hooks, because their plugin did not run. It returns the number of such
// reconciles in a row before.
func (m *Memory) HookMissed(item *v1alpha1.DeployItem, plugin, hookPlugin string) int {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	e.Outdated, e.Plugin, e.WaitsFor = true, plugin, hookPlugin
	e.Retries++
	return e.Retries - 1
}

// HookCrashed counts a crash of a plugin during a hook for an item. From the limit on it pauses the item until a time,
// and returns true.
func (m *Memory) HookCrashed(item *v1alpha1.DeployItem, limit int, until time.Time) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	e := m.entryOf(item)
	if e.Hooks.Crashes++; e.Hooks.Crashes < limit {
		return false
	}
	e.Hooks.Paused = until
	return true
}

// entryOf returns the entry of an item, and adds one if there is none. m.mu must be held.
func (m *Memory) entryOf(item *v1alpha1.DeployItem) *Entry {
	key := client.ObjectKeyFromObject(item)
	e, ok := m.entries[key]
	if !ok || e.UID != item.UID {
		e = &Entry{UID: item.UID}
		m.entries[key] = e
	}
	return e
}

// SetOutdated has an item read again, and keeps the rest of its entry. job is the item as its job has left it; nil for
// none.
func (m *Memory) SetOutdated(key types.NamespacedName, job *v1alpha1.DeployItem) {
	m.mu.Lock()
	defer m.mu.Unlock()
	e, ok := m.entries[key]
	if !ok {
		return
	}
	e.Outdated = true
	if job != nil {
		e.State = stateOf(job)
	}
}

// Forget drops the entry of an item.
func (m *Memory) Forget(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.entries, key)
}

// ForgetGone drops the entry of a deleted item, but not of a later item with its name.
func (m *Memory) ForgetGone(key types.NamespacedName, uid types.UID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e, ok := m.entries[key]; ok && e.UID == uid {
		delete(m.entries, key)
	}
}

// Size returns the number of entries.
func (m *Memory) Size() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.entries)
}

// Subscribe returns a channel for signals of changes of an item, until end is called.
func (m *Memory) Subscribe(key types.NamespacedName) (signals <-chan struct{}, end func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	channel := make(chan struct{}, 1)
	m.subscribed[key] = channel
	return channel, func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		// A later call may have subscribed: the call of another plugin, for a new item with this name.
		if m.subscribed[key] == channel {
			delete(m.subscribed, key)
		}
	}
}

// Changed signals a possible change of an item to its running call.
func (m *Memory) Changed(key types.NamespacedName) {
	m.mu.Lock()
	defer m.mu.Unlock()
	select {
	case m.subscribed[key] <- struct{}{}: // of nil, if there is no call
	default: // there is a signal already
	}
}
