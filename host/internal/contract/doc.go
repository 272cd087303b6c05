// Package contract implements Landscaper's deployer contract as pure functions of a DeployItem and a time: the next
// action for an item, and the changes of its status when a job is picked up, makes progress, meets an error and ends.
// It writes nothing. The caller writes the changed item on condition of the version that was decided on.
//
// # Jobs
//
// A job is to be done while jobID differs from jobIDFinished. It was picked up if the phase is that of a running job,
// transitionTimes.initTime is set, lastReconcileTime is not before jobIDGenerationTime (Landscaper's own rule), and the
// condition PickedUp names the job. The condition is Pergola's own: a job that replaces a running one must start from
// the beginning, however it was set and however little of the status was reset. So does a job begun by another
// deployer: it has no such condition.
//
// # Queue
//
// Landscaper fails a job that is not picked up within minutes. A job waiting for a worker is therefore picked up as
// queued, without a deadline. It is picked up once more when a worker is free; its time begins then.
//
// # Operations
//
// An operation requested by annotation is accepted by one write. It removes the annotation and notes in another one the
// accepted operation and its job. That write cannot change the status, a resource of its own. The note decides about
// everything that follows, so that a crash at any point neither loses an operation nor carries it out twice. A note
// whose job was replaced has no effect.
//
// # Conditions
//
// The conditions for tools such as kubectl wait are Pergola's own, too. Programs that end a job in the deployer's place
// do not set them; they are updated afterwards, and nothing else is.
//
// # Crashes
//
// The number of plugin crashes during calls for the job is the message of a condition. It belongs to the last job that
// was picked up: a pick-up resets it, and a takeover keeps it. A message that is no number counts as zero.
//
// # Times
//
// The status has times in whole seconds, from programs with different clocks. The rest is cut off, so that none is in
// the future. A deadline has a second more, so that no job gets less time than its timeout. lastReconcileTime is never
// before jobIDGenerationTime; no other time of a job is before its pick-up.
package contract
