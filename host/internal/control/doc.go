// Package control lets an operator ask a host that runs about its plugins and its jobs, and have plugins reloaded: HTTP over a Unix socket that only the
// user of the host can reach. Confined plugins are of that user, too, and older kernels do not keep them from sockets. But they cannot
// read files of the run directory, so a request has the token in it that is in a file beside the socket:
//
//	Authorization: Bearer TOKEN
//
//	GET  /v1/jobs             a JobList; ?namespace=NAMESPACE&name=NAME, or one of them, for those of an item
//	GET  /v1/plugins          a PluginList
//	POST /v1/plugins/reload   a ReloadRequest, answered by a ReloadResult
//
// Bodies are JSON. An answer that is no 200 is a Failure. What is on the wire are types of this package, whose JSON stays as it is
// within a version of the path; fields may be added.
package control
