// Package control lets an operator ask a host that runs about its plugins and have them reloaded: HTTP over a Unix socket that only the
// user of the host can reach.
//
//	GET  /v1/plugins          a PluginList
//	POST /v1/plugins/reload   a ReloadRequest, answered by a ReloadResult
//
// Bodies are JSON. An answer that is no 200 is a Failure. What is on the wire are types of this package, whose JSON stays as it is
// within a version of the path; fields may be added.
package control
