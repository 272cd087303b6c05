// Package contract is Landscaper's deployer contract as pure functions over a DeployItem and a time: what is to be done with an
// item, and how its status changes when a job is picked up, goes on, meets an error and ends. It writes nothing and knows no
// client; whoever uses it writes the changed status under the condition that the item is still the one that was decided on.
//
// A job is to be done while jobID differs from jobIDFinished. It has been picked up when the phase is one of a job under way,
// transitionTimes.initTime is set and lastReconcileTime is not before jobIDGenerationTime. Landscaper resets the transition
// times with every new job and notes the time, so that a job that replaces another one half-way is told from the one it
// replaces. Who sets a job without resetting the transition times is told by the time alone, which has whole seconds.
//
// The status holds times in whole seconds, written by programs whose clocks differ. initTime is rounded up, so that no job gets
// less time than its timeout allows; lastReconcileTime is never before jobIDGenerationTime, which Landscaper compares it with;
// no other time of a job is before its pick-up.
package contract
