// Package install installs Pergola as an operator does, from the images and the chart alone, on a real node: with examples of all plugins, more
// replicas, an upgrade in the middle of jobs, and what stays when it is uninstalled.
package install
