// Package image tests the images on a node, and that plugins of others come to a host in each way that docs/plugins-in-image.md shows: its
// Dockerfiles, its objects and its commands are what the tests use. It skips on a machine that cannot run a node.
package image
