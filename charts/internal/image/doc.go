// Command image assembles Pergola's images, without a container runtime: the image of the host with its plugins, and
// the image of the container deployer's helper. `make image` builds the programs and runs it.
//
// Each image becomes an OCI layout, with one manifest for each platform. The same programs give the same bytes. The
// licenses of the programs' modules are in the image, as most of them demand.
package main
