// Package contract is Landscaper's deployer contract as pure functions over a DeployItem and a time: what is to be done with an
// item, and how its status changes when a job is picked up, goes on, meets an error and ends. It writes nothing and knows no
// client; whoever uses it writes the changed status under the condition that the item is still the one that was decided on.
//
// A job is to be done while jobID differs from jobIDFinished. It has been picked up when the phase is one of a job under way
// and transitionTimes.initTime is set: Landscaper resets the transition times with every new job, so that a job that replaces
// another one half-way is told from the one it replaces.
package contract
