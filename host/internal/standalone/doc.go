// Package standalone is the other side of the deployer contract, for a Pergola without a Landscaper: it sets jobs, and
// ends jobs after their timeouts.
//
// # Jobs
//
// A DeployItem gets a new jobID when it is new, when its spec has changed and when it is to be deleted. A job of an
// earlier spec gives way to the next one; for its deployer that is like an abort by a new jobID. Operations requested
// by annotation are the deployer's matter. Items also get annotations with type and Target for Landscaper's deployers.
// An item with work, but without a plugin for its type, gets a condition and an event.
//
// A failed job is followed by a try, which is a job with another jobID: after a pause if the error can heal by itself
// (contract.Pauses), and at once after a change of an object that the item uses (Repaired). The pause is in the status.
// Changes while no host runs are not noticed, and wait for the pause. A deployed item without a schedule gets a job at
// an interval; its time is in the memory only, and follows from the item's uid. A paused item gets none of these.
//
// # Decisions
//
// The setter decides by the cache. Its items lack only large parts; see itemcache.Slim. Only an item in need of
// something is read, and the decision is repeated with the item in full before a write.
//
// # Timeouts
//
// A job fails without a pick-up within the pickup timeout. The time counts from the last of three events: the job was
// set, this host began to serve the type, the spec changed. So after a correction of the Target the job has the whole
// time, and so has the generation named by the failure.
//
// A deployer ends its job at the deadline at the latest. If the job is still under way when the progressing timeout has
// passed since then, the deployer counts as dead.
//
// The status has times in whole seconds, cut off. A job without the time when it was set is left alone.
package standalone
