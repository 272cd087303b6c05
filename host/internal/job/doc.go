// Package job is the other side of the deployer contract, for a Pergola that runs without a Landscaper: it sets jobs. A deploy
// item gets a new jobID when it is new or its spec has changed, when it is to be deleted, and when somebody asks by the
// annotation landscaper.gardener.cloud/operation: reconcile; always only while no other job is under way. Items also get the
// annotations with which Landscaper lets deployers tell from the metadata alone whether an item concerns them.
//
// Items of a type that no plugin serves are not touched.
package job
