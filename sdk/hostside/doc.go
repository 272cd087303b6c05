// Package hostside is the host's side of the protocol: it writes the messages to a plugin and reads its answers. The
// host calls plugins with it, and package conformance judges them by it. It is no API for the authors of deployers and
// may change with each release.
//
// All texts that it reads are bounded and valid UTF-8, because they end up in logs, metrics and the status of objects.
package hostside
