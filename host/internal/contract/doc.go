// Package contract implements Landscaper's deployer contract as pure functions of a DeployItem and a time: what to do
// with an item, and how its status changes when a job is picked up, makes progress, meets an error and ends. It writes
// nothing. The caller writes the changed item on condition that it is still the one that was decided on.
//
// # Jobs
//
// A job is to be done while jobID differs from jobIDFinished. It was picked up if the phase is that of a running job,
// transitionTimes.initTime is set, lastReconcileTime is not before jobIDGenerationTime (Landscaper's own rule), and the
// condition PickedUp names the job. The condition is Pergola's own: a job that replaces a running one must start from
// the beginning, whoever has set it and however little of the status was reset. So does a job that another deployer
// has begun: it has no such condition.
//
// # Queue
//
// Landscaper fails a job that nobody picks up within minutes. A job that waits for a slot (one of the workers of the
// host configuration) is therefore picked up as queued, without a deadline. It is picked up once more when it has a
// slot; its time begins then.
//
// # Operations
//
// An operation that a user requests by annotation is accepted by one write, which removes the annotation and notes in
// another one what was accepted for which job. That write cannot change the status, which is a resource of its own.
// All that follows is decided from the note, so that a crash at any point neither loses an operation nor carries it out
// twice. A note whose job was replaced has no effect.
//
// # Conditions
//
// The conditions that tools such as kubectl wait read are Pergola's own, too. Whoever ends a job in the deployer's
// place does not set them; they are updated afterwards, and nothing else is.
//
// # Crashes
//
// How often a plugin has crashed during a call for the job is the message of a condition. It belongs to the job that
// was picked up last: a pick-up resets it, and a takeover keeps it. A message that is no number counts as zero.
//
// # Times
//
// The status has times in whole seconds, from programs whose clocks differ. initTime is rounded up, so that no job gets
// less time than its timeout; lastReconcileTime is never before jobIDGenerationTime; no other time of a job is before
// its pick-up.
//
// # Responsibility
//
// The type and the Target of an item decide which deployer is responsible. Landscaper repeats both in the item's
// annotations: items can be large, and most events concern items that are not ours or have nothing to do. Selectors
// select items by their Targets.
package contract
