// Package charts has no code but tests: the chart renders what its values say, and a cluster takes it. The chart is in
// pergola; how a Landscaper installs it is in landscaper. The tools in internal make generated files of the chart, the
// images, and the files of a release.
package charts
