// Package contract is Landscaper's deployer contract as pure functions over a DeployItem and a time: what is to be done
// with an item, and how the item changes when a job is picked up, goes on, meets an error and ends. It writes nothing
// and knows no client; whoever uses it writes the changed item under the condition that it is still the one that was
// decided on.
//
// # Jobs
//
// A job is to be done while jobID differs from jobIDFinished. It has been picked up when the phase is one of a job
// under way, transitionTimes.initTime is set, lastReconcileTime is not before jobIDGenerationTime, which is how
// Landscaper tells it, and the condition PickedUp names this very job. The condition is Pergola's own: a job that
// replaces another one half-way must begin anew, whoever has set it and however little of the status was reset. A job
// that another deployer has left half-way has no such condition and begins anew, too.
//
// # Queue
//
// Landscaper fails a job that nobody picks up within minutes. A job that waits for a worker is therefore picked up and
// put into a queue; it has no deadline there. It is picked up once more when its turn has come, so that its time begins
// then.
//
// # Operations
//
// An operation that a user asks for by annotation is accepted by one write that takes the annotation away and notes, in
// an annotation of Pergola's, what was accepted for which job. A status cannot be changed by that write: it is a
// resource of its own. What follows, the job's own status write among it, is then decided from the note, so that a
// crash at any point neither loses an operation nor carries it out twice. A note whose job has been replaced means
// nothing.
//
// # Conditions
//
// Conditions that the tools of the field read are Pergola's own, too. Who ends a job in the deployer's place knows
// nothing of them, so that they are brought in line afterwards, and nothing else is.
//
// # Crashes
//
// How often a plugin has died in the middle of a job's call is the message of a condition of its own. It belongs to the
// job that was picked up last: a pick-up forgets it, whoever takes the job over goes on with it. What cannot be read
// there counts as none.
//
// # Times
//
// The status holds times in whole seconds, written by programs whose clocks differ. initTime is rounded up, so that no
// job gets less time than its timeout allows; lastReconcileTime is never before jobIDGenerationTime; no other time of a
// job is before its pick-up.
//
// # Responsibility
//
// Which deployer an item belongs to is decided from its type and its Target, which Landscaper repeats in the item's
// annotations: items can be large, and most events concern items that are not ours, or that have nothing to do.
// Selectors decide whether an item is ours by the Target that it has.
package contract
