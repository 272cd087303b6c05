// Package lock sees to it that no two replicas of a host work on a deploy item at the same time.
//
// # Locks
//
// A lock is a SyncObject, as Landscaper's own deployers have it: one for each pair of plugin and item, named
// "<prefix><plugin>-<UID of the item>", in the namespace of the item. spec.podName is the holder; it is empty when
// there is none. The object is created by the first holder and stays when the lock is released; Cleaner deletes it
// when the item is gone.
//
// A lock is taken by one conditional write (create, or patch of the version that the watch has shown), held as long as
// the job, and given back by another one. What is known of the locks comes from a watch: to find one taken costs no
// request, and its release wakes who waits for it.
//
// # Who is alive
//
// Each replica renews a Lease with the name of its Pod, which owns it. A holder is dead when its Pod is gone or has
// finished; a replica also when its Lease names another process or none, or was not renewed for as long as it holds.
// What the watches of Pods and Leases show may be late, so the Pod and the Lease are read before a lock is taken from
// its holder. A holder without a process is of another implementation, of which only its Pod is known.
//
// Clocks of different machines are never compared. A Lease has expired when this replica has seen no renewal for as
// long as the Lease says, by its own clock. The replica itself counts from before it sends a renewal, and counts its
// locks as lost after two thirds of that time, which is before anybody may take them. The last third is for clocks of
// different speed.
//
// # What makes it safe
//
// That a holder is dead can be an error: it may be stopped and go on later. So nothing depends on it:
//
//   - A replica that cannot show that it is alive (Replicas.Valid) loses its locks.
//   - One that sees its lock taken, in the watch, cancels the call of its plugin.
//   - One that sees neither cannot write: each write of an item is conditional on the resourceVersion that it has
//     decided on, and who takes a lock changes the item before it calls its plugin (Lock.Fenced). After a conflict
//     the item is read, and then the lock (Lock.Verify), in this order, before anything is written again.
//
// docs/architecture.md has the argument, and says what would break without which check.
//
// # Who does what
//
// Each item prefers one of the replicas that serve its plugin: the one with the highest hash of the names of both
// (rendezvous hashing). A replica that comes or goes moves only the items that prefer it. Which plugins a replica
// serves its Lease says. Views of different replicas may differ for a moment, so nothing may depend on preference or
// election.
package lock
