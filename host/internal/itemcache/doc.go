// Package itemcache lists and watches DeployItems. The cache keeps typed items without their provider configuration
// and provider status. contract.Decide has the same answer for an item in the cache as for the item in full, so an
// idle item is never read.
package itemcache
