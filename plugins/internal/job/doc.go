// Package job is the frame of a deployer's call: its beginning on the right cluster, its warnings, and its responses.
// The steps in between are those of the deployer.
package job
