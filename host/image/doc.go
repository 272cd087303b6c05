// Command image assembles Pergola's images, without a container runtime: that of the host with its plugins, and that of the container
// deployer's helper. `make image` builds the programs and runs it.
//
// Each image becomes an OCI layout in an archive, with one manifest for each platform, and a list of the modules that its programs are made
// of (an SBOM in SPDX) attached to it as a referrer. The same programs give the same bytes. Each program is a layer of its own, so that whoever
// has an image already fetches only what has changed. The licenses of those modules are in the image, which most of them demand.
//
// What is in an image is decided by functions of their arguments: definitions says what there are, assemble makes one of them, describe its
// SBOM. Files and registries are left to main, which reads the programs and the licenses, writes the archives and pushes them.
package main
