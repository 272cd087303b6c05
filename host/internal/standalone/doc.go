// Package standalone is the other side of the deployer contract, for a Pergola without a Landscaper: it sets jobs, and
// ends jobs after their timeouts.
//
// # Jobs
//
// A DeployItem gets a new jobID when it is new, when its spec has changed and when it is to be deleted, while no other
// job is under way. Operations requested by annotation are the deployer's matter. Items also get annotations with type
// and Target for Landscaper's deployers. An item with work, but without a plugin for its type, gets a condition and an
// event.
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
