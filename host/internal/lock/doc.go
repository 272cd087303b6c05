// Package lock keeps two replicas of a host from working on a deploy item at the same time.
//
// # Locks
//
// A lock is a SyncObject, as Landscaper's own deployers have it: one for each pair of plugin and item, named
// "<prefix><plugin>-<UID of the item>", in the namespace of the item. spec.podName is the holder; it is empty for a
// free lock. The first holder creates the object, and it stays when the lock is released; Cleaner deletes it after the
// item.
//
// Two conditional writes take a lock (create, or patch of the version in the watch) and release it, at the beginning
// and at the end of a job. All else comes from a watch: finding a lock taken costs no request, and its release wakes
// the waiting items.
//
// # Live and dead holders
//
// Each replica renews a Lease with the name of its Pod, its owner. A holder is dead when its Pod is gone or has
// finished; a replica also when its Lease names another process or none, or has expired. The watches of Pods and Leases
// may be late, so both are read before a lock is taken from its holder. A holder without a process is of another
// implementation; only its Pod counts.
//
// Clocks of different machines are never compared. A Lease has expired when this replica has seen no renewal for the
// duration of the Lease, by its own clock. The replica itself counts from before it sends a renewal, and counts its
// locks as lost after two thirds of that time, before any other replica may take them. The last third is for clocks of
// different speed.
//
// # Safety
//
// A holder taken for dead may only be stopped, and go on later. So nothing depends on its death:
//
//   - A replica without a recent renewal (Replicas.Valid) loses its locks.
//   - A replica that sees its lock taken, in the watch, cancels the call of its plugin.
//   - A replica that sees neither cannot write: each write of an item is conditional on the resourceVersion of the
//     decision, and the new holder of a lock changes the item before it calls its plugin (Lock.Fenced). After a
//     conflict the item is read, and then the lock (Lock.Verify), in this order, before the next write.
//
// docs/architecture.md has the argument, and the failure that each check prevents.
//
// # Preference
//
// Each item prefers one of the replicas with its plugin: the one with the highest hash of the names of both (rendezvous
// hashing). A replica that comes or goes moves only the items that prefer it. The Lease of a replica lists its plugins.
// Views of different replicas may differ for a moment, so nothing may depend on preference or election.
package lock
