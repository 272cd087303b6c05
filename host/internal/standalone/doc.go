// Package standalone is the other side of the deployer contract, for a Pergola that runs without a Landscaper: it sets
// jobs, and ends those that no deployer ends. An item that needs something and whose type no plugin serves says so, by
// a condition and an event; it is not touched beyond that.
//
// # Jobs
//
// A deploy item gets a new jobID when it is new, when its spec has changed and when it is to be deleted; always only
// while no other job is under way. What somebody asks for by annotation is the deployer's matter, which sets a job for
// it itself where it takes one. Items also get the annotations with which Landscaper lets deployers see from the
// metadata alone whether an item concerns them.
//
// # Reading little
//
// An item is read when it may need something. One that was seen to need nothing, or to say that no plugin serves its
// type, is not read again until it has changed: what its content says is remembered by its resourceVersion, and is true
// whoever is elected and whatever is served meanwhile. Somebody else lists all items once at the start (see
// Setter.Listed), so that most of them are never read one by one. What changes until then is not kept waiting.
//
// # Timeouts
//
// A job that nobody picks up within the pickup timeout fails. The time counts from when the job was set, but never from
// before this host has served the type, since nobody could pick the job up then, and anew from a change of the spec:
// who has just named the right Target gets all of the time for that. The generation that the failure is written down
// for has therefore been there for the whole time, and a change that comes later gets a job of its own.
//
// A job that was picked up is ended by its deployer, at its deadline at the latest. One that is still under way when
// the progressing timeout has passed since then has a deployer that is dead.
//
// The status has the times of a job in whole seconds, cut off. A job of which it does not say when it was set is left
// alone.
package standalone
