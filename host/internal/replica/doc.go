// Package replica holds what a host knows of the replicas beside it: who is alive, whether it may itself still count as alive, which
// replica an item prefers, and which one does what is to be done once.
//
// Each replica has a Lease in the namespace of the host's pods, which it renews, and which its Pod owns. Pods and Leases are watched;
// every answer comes from memory.
//
// # Who is dead
//
// A holder of a lock is the name of a pod, and if it is known the process. The first rule that fits decides:
//
//  1. "nopodname" is what Landscaper calls a deployer that does not know its pod. It is always alive: nothing can be found out about
//     it, and Landscaper counts it so too.
//  2. The own pod name with the own process is alive. With any other process, or none, it is dead: a pod's name is its own, so who has
//     used it before is gone.
//  3. When there is no pod of the name in the namespace, or it has finished, the holder is dead.
//  4. When the pod has no Lease, a holder without a process is alive. It is of another implementation, of which seed 002 says no more
//     than that its pod exists.
//  5. When the pod's Lease has expired, or was given back, or names another process than the holder's, the holder is dead: the node is
//     lost or the process hangs, it has ended in good order, or its container was started again.
//  6. When the pod has no Lease, but the holder is a process, there should be one: it is dead when there has been none for as long as the
//     Lease would have held. Whoever lives makes a Lease that was deleted anew with the next renewal.
//
// Names of pods come back, as those of a StatefulSet do; processes do not. So what is over is remembered by process, whatever pod of the
// name comes later. A process is over for good when its pod is gone, or was followed by one with another UID, and when the Lease names
// another process after it, or none. It comes back from expiry, as it may only have been cut off.
//
// A wrong "alive" costs time, a wrong "dead" may cost the work of a job. So whatever a watch shows may be late, and nobody is dead by it
// alone: rules 3, 5 and 6 are confirmed by reading the pod or the Lease itself, and what is read is about no process that was heard of
// only after it was asked for. As long as that is under way, or fails, the answer is alive; Listener.ReplicaDied tells when it has changed.
// One thing needs no confirmation: what is over for good by what the watches show in their order - a process that was followed by another
// one or has given its Lease back, a pod that was followed by another one.
//
// What is known of pods that are gone is forgotten when nobody has asked for long, and so are processes when they are too many. That
// changes no verdict for the worse: who is asked about again is found out about again.
//
// # Time
//
// Clocks of different machines are never compared. A Lease has expired when this replica has seen no renewal for as long as the Lease
// says, by its own clock; one seen for the first time counts as renewed then, as in the leader election of client-go. A replica
// that has lapsed has not been able to see the others renew either: when it is back, their time begins anew.
//
// A replica itself counts the time from before it sends a renewal, the others from when they have seen it, which is later; and it lapses
// after two thirds of the time that they wait. The last third is for clocks of different speed. So a replica that has not lapsed is not
// taken for dead. Two things are not covered, and package lock says what helps then: a process, or a whole machine, may be stopped
// between the look at Valid and what it does next; and one that was found dead while it had lapsed is valid again a moment before the
// others see its renewal.
//
// # Who does what
//
// Each key of a plugin, such as a deploy item, prefers one of the replicas that serve the plugin: the one with the highest hash of the
// names of both (rendezvous hashing). A replica that comes or goes moves only the keys that prefer it. Which plugins a replica serves its
// Lease says. Views of different replicas may differ for a moment, so nothing may depend on preference or election.
package replica
