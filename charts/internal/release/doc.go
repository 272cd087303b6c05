// Command release makes the files of a release out of the images and the chart: archives of the host with its plugins,
// the images as OCI layouts, the chart, the CustomResourceDefinitions, an SBOM, checksums, and a page about their
// checks. `make release` builds the images and the chart, and runs it.
//
// The same commit gives the same bytes, on each machine and at any time.
package main
