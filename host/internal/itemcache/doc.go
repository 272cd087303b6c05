// Package itemcache lists and watches DeployItems. The cache keeps typed items without their provider configuration and
// provider status, so that contract.Decide has the same answer for an item in the cache as for the item in full: an idle
// item is never read.
package itemcache
