// Package archive moves directories between containers that do not trust each other, as gzipped tar archives in chunks that fit into Secrets.
//
// The image of a run may put anything into its directories, and change them while they are read. Pack and Open stay in the directory that they
// are given, wait for nothing, and take what is a regular file or a directory and nothing else. Archives may come from Landscaper's deployer,
// and through other hands: Unpack makes regular files and directories below its directory, within limits, whatever an archive holds.
package archive
