// Command image assembles Pergola's images, without a container runtime: that of the host with its plugins, and that of
// the container deployer's helper. `make image` builds the programs and runs it.
//
// Each image becomes an OCI layout, with one manifest for each platform. The same programs give the same bytes. The
// licenses of the modules that the programs are made of are in the image, which most of them demand.
package main
