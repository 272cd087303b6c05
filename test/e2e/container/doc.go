// Package container tests the container deployer with a real host, a real plugin and real Pods on a node. The node's cluster is all at once:
// the one with the deploy items, the host cluster and, where a test wants one, the target. It skips on a machine that cannot run a node.
package container
