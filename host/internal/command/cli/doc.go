// Package cli is the frame of all commands: the root command, exit codes, output formats and the way to a cluster.
package cli
