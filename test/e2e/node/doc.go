// Package node has the end-to-end tests that need a node: of what runs containers, of the images of Pergola, and of
// its chart. They share one cluster.
package node
