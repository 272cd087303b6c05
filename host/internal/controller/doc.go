// Package controller reconciles deploy items: it watches them, finds the plugin that serves them, follows the deployer
// contract and calls the plugin. Reconcile and the run of package job read like "The way of a DeployItem" in
// docs/architecture.md.
//
// # Events
//
// One list and watch serves all plugins; see itemcache.Source. The router puts each item into the queue of its plugin.
// Each plugin has its own queue and workers, so that none waits for another.
//
// # Memory
//
// Decisions need no memory: the cache has all items without their large parts, and contract.Decide has the same answer
// for both. The memory has the state of jobs between two reconciles, and what hooks have asked for. The contents have
// items with work in full, so that they are not read again. Every write is conditional on the resourceVersion that was
// decided on; after a conflict the item is read and decided again. A lost entry costs a read, and releases the lock of
// its job.
//
// # Slots
//
// Slots, not workers, bound how many calls of a plugin run at once. There are a few more workers, so that jobs are
// picked up however slow the deployer is. A job that gets no slot is picked up as queued.
//
// During a call the item is watched. Another job, a deletion, an abort or an interruption cancels the call; other
// changes, such as a label, do not. The plugin's progress is shown in the status.
//
// # Poison items
//
// An item may crash its plugin, and with it the calls for others. The item's status counts how often the plugin has
// crashed during a call for the job, so that all replicas share the count; the last of Options.MaxCrashes crashes fails
// the job. A crash that could not be written is not counted, nor is one when the host stops. After a crash each item
// that was in a call is a poison item, whether it is to blame or not. Poison items get slots one at a time, besides the
// other items, until their jobs end, so that the one to blame hits no other poison item; see class for what that
// guarantees. While they are queued, their time goes on, and an abort, a deletion or a new job takes effect.
//
// # Replicas
//
// Every replica watches every item. Each item prefers one replica; the others wait for a moment before they try to
// handle it. A job needs the item's lock (package lock), which is acquired when there is something to do and a slot
// for it, and held until the job ends. An item whose lock another replica holds is not read. When that replica
// releases the lock, it notes the version at which the item was idle, so that a replica whose cache is older does not
// start. A job that is queued for a slot has no lock: its pick-up starts nothing, and the replica with the first free
// slot handles it.
//
// A replica that has lost a lock must not write any more: see packages tenure and exports.
//
// # Hooks
//
// Hooks run in a reconcile unless the item is skipped. The item is read in full before the first of them, and nothing
// is written before they agree. They do not run before a write that only ends a job, as after its deadline, so that no
// hook can keep a job from ending, unless only a hook can make this host responsible for the item.
//
// ShouldReconcile hooks run once for each version of an idle item in each replica; after a job they run at once. A
// plugin with schedules in the provider configuration is not asked about an item without one. The host sets the job
// that they request by the write that picks it up. That write is conditional, so that a job that was set meanwhile
// wins.
//
// HTTP hooks are part of the plugin's call: what cancels the call cancels them.
//
// # Waiting
//
// No worker waits. A job that waits is requeued after the time that the plugin asks for. It is reconciled earlier when
// the plugin says that the item may have changed, when the item changes, or when what it waits for is there: a Target
// or its Secret, a Context, a plugin, a slot.
package controller
