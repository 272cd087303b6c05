// Package standalone is the other side of the deployer contract, for a Pergola without a Landscaper: it sets jobs, and
// ends jobs that no deployer ends.
//
// # Jobs
//
// A DeployItem gets a new jobID when it is new, when its spec has changed and when it is to be deleted, while no other
// job is under way. Operations that users request by annotation are the deployer's matter. Items also get the
// annotations from which Landscaper's deployers learn type and Target. An item with work whose type no plugin serves
// gets a condition and an event.
//
// # Decisions
//
// The setter decides by the cache, whose items lack only large parts; see itemcache.Slim. Only an item that needs
// something is read, and the decision is repeated with the item in full before a write.
//
// # Timeouts
//
// A job that is not picked up within the pickup timeout fails. The time counts from the later of three events: the job
// was set, this host began to serve the type, the spec changed. So a user who corrects the Target gets the whole time,
// and the generation that the failure names was there for the whole time.
//
// A deployer ends a job that it has picked up at the deadline at the latest. If the job is still under way when the
// progressing timeout has passed since then, the deployer counts as dead.
//
// The status has times in whole seconds, cut off. A job without the time when it was set is left alone.
package standalone
