// Package lock sees to it that no two replicas of a host work on a deploy item at the same time. A lock is a SyncObject, as seed 002
// and Landscaper's own deployers have it: one for each pair of plugin and item, named "<prefix><plugin>-<UID of the item>", in the
// namespace of the item. spec.podName is the holder; it is empty when there is none. The object is created by the first holder and
// stays when the lock is released; Cleaner deletes it when the item is gone.
//
// # Taking and giving back
//
// A lock is taken only when there is something to do, by one conditional write (create, or update of the version that is known from
// the watch), held as long as the job, over all its polls, and given back by another one. What is known of the locks comes from a
// watch: to find one taken costs no request, and its release wakes who waits for it.
//
// # What makes it safe
//
// A lock is taken over from a holder that is dead; package replica says when. That a holder is dead can be an error: it may be cut
// off, or stopped and go on later. So nothing depends on it:
//
//   - A replica that cannot show itself alive (replica.Replicas.Valid) counts its locks as lost before anybody may take them over.
//   - One that sees its lock taken, in the watch, cancels the call of its plugin.
//   - One that sees neither cannot write: each write of an item is conditional on the resourceVersion that it has decided on, and who
//     takes a lock changes the item before it calls its plugin (Lock.Fenced). After a conflict the item is read, and then
//     the lock is looked at (Lock.Verify), in this order, before anything is written again.
//
// docs/locking.md has the argument, and says which step would break without which check.
//
// # Notes on a lock
//
// Two annotations are ours. AnnotationProcess names the process that holds the lock, because a pod's name can have several, one after
// the other; without it a write that only renews the holder might change nothing. AnnotationSettled is the resourceVersion of the item
// at which the holder had nothing more to do with it: the other replicas need not read the item to know. It may be followed by a note,
// which is the host's business: when hooks want the item to be looked at again.
package lock
