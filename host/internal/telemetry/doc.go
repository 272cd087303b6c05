// Package telemetry shows a host to the tools of its operator: metrics, traces, health, and the records in the log for
// the tools of a Landscaper (workers in use, and the figures of the autoscalers). It opens the addresses of a host for
// HTTP, and restricts their host names.
//
// # Events
//
// The controller reports events of jobs in few places, without knowledge of their use: a Stream passes them on to
// Observers, such as JobMetrics, and to the Tracer. The Stream goes with the context of a reconcile: Report and Begin
// send events, and SetJob sets their job as soon as it is known. With another context they do nothing, so callers need
// no check. An event has only content of the status or the events of its item: no deployed content, exports or
// credentials.
//
// # Traces
//
// A job has one trace, across replicas and attempts. So the ids of the trace and of its root, the job itself, are made
// of the item's UID and the job's ID: after a restart, or in another replica, the job continues its trace. The replica
// that ends the job sends the root, above all spans of the others. Sampling depends on the id of the trace alone.
//
// Below the root are locks, hooks, calls of plugins and requests to the API server, each with its consequences below
// it. Plugins and HTTP hooks get the trace context of W3C with each call. Jobs do not wait for the collector: spans not
// accepted in time are dropped.
package telemetry
