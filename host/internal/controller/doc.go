// Package controller carries out deploy items: it hears of them, finds the plugin that serves them, follows the
// deployer contract and calls the plugin. Reconcile and job.run read like "The way of a DeployItem" in
// docs/architecture.md.
//
// # Events
//
// There is one watch for all plugins, of metadata only: deploy items can be large, and most events concern idle ones.
// The router forwards each event to the queue of the plugin that serves the item; each plugin has a queue and workers
// of its own, so that none waits for another's.
//
// # Memory
//
// A replica remembers what it has read and written itself: an item that has nothing to do is not read again until it
// has changed, and one whose job is under way is not read again for each poll. When the host starts it lists all items
// once, page by page, so that those that have nothing to do are not read one by one. None of this is needed for
// correctness. Every write is conditional on the resourceVersion that its decision was made from; a write that meets a
// conflict is given up, and everything is decided again from what is there now.
//
// # Slots
//
// Slots, not workers, bound how many calls of a plugin are under way: there are a few workers more, so that jobs are
// picked up however slow the deployer is. A job that gets no slot is written down as queued and stands in line.
//
// During a call the item is watched. A change that leaves the call its purpose, such as a label, disturbs nothing;
// another job, a deletion, an abort or an interruption cancels the call. The plugin's progress is shown.
//
// # Poison items
//
// An item may kill its plugin, and with it the calls of others. How often the plugin has died in the middle of a
// job's call is counted in the item's status, so that all replicas count together and none begins anew; the last of
// Options.MaxCrashes crashes fails the job. A crash that could not be written is not counted, nor is one that comes
// of the host's own end. When a plugin dies, each item in a call counts as poison, the guilty and the innocent alike.
// From then on these items are called one at a time, beside those that are not poison, so that of them only the guilty
// one is hit by what it does; see place for what that guarantees. They count as poison until their jobs end. They wait
// as any job under way does: their time goes on, and an abort, a deletion or a new job finds them in line.
//
// # Replicas
//
// Every replica hears of every item. Each item prefers one of them; the others leave it alone for a moment, and then
// try to take it, too. A job is carried out under the item's lock (package lock), which is taken when there is
// something to do and a slot to do it with, and held until the job ends. An item whose lock another replica holds is
// not read; when that one gives it back it notes the version at which there was nothing to do, so that the item need
// not be read for that either. A job that waits for a slot is not locked: that its pick-up was written down without a
// lock does no harm, as it starts nothing, and whoever has a slot first carries it out.
//
// A lock that was taken over, or may have been, fences off: see job.takeOver, job.readAgain and exporter.write.
//
// # Hooks
//
// Hooks run in a reconcile unless the item has nothing to do, is not due or is left to others. An item with hooks of
// its type is read in full before the first of them; nothing of it is written before they agree. What only notes that
// a job has ended goes past them, so that no hook keeps a job from its end.
//
// Hooks of type ShouldReconcile are asked about each item that has nothing to do, once: memory, and the note on its
// lock, say which ones were asked and when they want to be asked again. When a job ends they are asked at once, under
// the same lock, so that the note is there for the other replicas. A job that they ask for is one that the host sets,
// as it does for an annotation, by the write that picks it up; whoever has set another one meanwhile wins, because
// that write is conditional.
//
// HTTP hooks belong to the call of the plugin: what cancels the call cancels them.
//
// # Waiting
//
// No worker waits. A job that waits for something goes back to the queue with the plugin's hint, and comes earlier
// when the plugin says that the item may have moved on, when the item is changed, or when what is missing has come: a
// Target or its Secret, a Context, a plugin, a slot.
package controller
