// Package telemetry is what an operator's tools see of a host from outside: metrics, traces, whether it is alive and
// ready, and the records in the log that the tools of a Landscaper read: how busy its workers are, and what its
// autoscalers say. It opens the addresses at which a host answers over HTTP, and knows under which names.
//
// # Events
//
// What happens to the jobs of deploy items is reported as events, in few places of the controller, which does not
// know what becomes of them: a Stream passes them on to Observers, such as JobMetrics, and to the Tracer. The Stream
// goes with the context of a reconcile: Report and Begin say what happens in it, and SetJob which job it is for, once
// that is known. With another context they do nothing, so that nobody has to ask. An event says nothing that the
// status or the events of its item do not say as well: neither what is deployed, nor exports, nor credentials.
//
// # Traces
//
// A job has one trace, whoever works on it, and however often. So the ids of the trace and of its root, the job
// itself, are made of the item's UID and the job's ID: who continues a job, such as after a restart or in another
// replica, continues its trace without having heard of it. The root is sent by the replica that ends the job, and is
// above all that others have sent before. Whether a job is traced depends on the id of its trace alone.
//
// Below the root are locks, hooks, calls of plugins and requests to the API server, each with what it has led to
// below it. Plugins and HTTP hooks get the trace context of W3C with each call. Jobs do not wait for the collector:
// what it does not take in time is dropped.
package telemetry
