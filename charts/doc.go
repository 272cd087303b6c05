// Package charts has no code but tests: that the chart renders what its values say, and that a cluster takes it. The chart is in pergola,
// and how a Landscaper installs it in landscaper.
package charts
