// Package deployerv1 is the protocol between the Pergola host and a deployer plugin, generated from deployer.proto,
// which has the comments. Authors of plugins in Go do not need it: package sdk speaks it for them.
package deployerv1
