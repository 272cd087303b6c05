// Package controller reconciles deploy items: it watches them, finds the plugin for each, follows the deployer
// contract and calls the plugin. Reconcile and the run of package job read like "The way of a DeployItem" in
// docs/architecture.md. A Controller wires the parts together; each plugin has its own reconciler, queue and workers,
// so that no plugin waits for another.
//
// # Memory
//
// Decisions need no memory: the cache has all items without their large parts, and contract.Decide has the same
// answer for both. itemstate.Memory has the state of jobs between two reconciles, and the requests of hooks;
// itemstate.Contents has items with work in full, and saves their reads. Every write is conditional on the
// resourceVersion of its decision; after a conflict the item is read and decided again. A lost entry costs a read,
// and releases the lock of its job.
//
// # Slots
//
// Slots, not workers, bound the number of calls of a plugin at once. There are a few more workers, so that jobs are
// picked up however slow the deployer is. A job without a slot is picked up as queued.
//
// During a call the item is watched. Another job, a deletion, an abort or an interruption cancels the call; other
// changes, such as a label, do not, except before a late pick-up: that write needs the item of the decision. The
// plugin's progress is shown in the status.
//
// # Poison items
//
// An item may crash its plugin, and with it the calls for others. The item's status counts the crashes during calls
// for the job, so that all replicas share the count; the last of Options.MaxCrashes crashes fails the job. A crash
// during a stop of the host is not counted, nor is a crash without a write. After a crash each item with a call is a
// poison item, guilty or not. Poison items get slots one at a time, besides the other items, until their jobs end, so
// that a guilty item hits no other poison item; see the classes of package slots. While they are queued, their time
// goes on, and an abort, a deletion or a new job takes effect.
//
// # Replicas
//
// Every replica watches every item. Each item prefers one replica; the others wait for a moment before they try to
// handle it. A job needs the item's lock (package lock). It is acquired together with a slot, and held until the job
// ends. The items of other lock holders are not read. With the release of a lock its holder notes the version of the
// idle item, so that replicas with an older cache do not start. A job that is queued for a slot has no lock: its
// pick-up starts nothing, and the replica with the first free slot handles it.
//
// After the loss of a lock a replica must not write any more: see packages tenure and exports.
//
// # Hooks
//
// Hooks run in a reconcile unless the item is skipped. The item is read in full before the first of them, and nothing
// is written before they agree. They do not run before a write that only ends a job, for example after its deadline:
// no hook can keep a job from ending. The exception is an item of another host, for which a hook may make this host
// responsible.
//
// ShouldReconcile hooks run once for each version of an idle item in each replica; after a job they run at once. A
// plugin with schedules in the provider configuration is not asked about an item without a schedule. Their job is set
// by the write of its pick-up. That write is conditional, so that a job of another client wins.
//
// HTTP hooks are part of the plugin's call, and are canceled with it.
//
// # Waiting
//
// No worker waits. A waiting job is requeued after the time given by the plugin, or earlier: at a signal of the
// plugin, after a change of the item, or when its Target, the Secret of the Target, its Context, a plugin or a slot
// is there.
package controller
