// Package tracing makes traces of jobs, by OpenTelemetry, and sends them to a collector.
//
// A job has one trace, whoever works on it, and however often. So the ids of the trace and of its root, the job itself, are made of the item's UID
// and the job's ID: who continues a job, such as after a restart or in another replica, continues its trace without having heard of it. The root is
// sent by the replica that ends the job, and is above all what others have sent before. Whether a job is traced depends on the id of its trace alone.
//
// Below the root are locks, hooks, calls of plugins and requests to the API server, each with what it has led to below it. Plugins and HTTP hooks
// get the trace context of W3C with each call. None of the attributes is more than the status of the item says.
//
// Jobs do not wait for the collector: what it does not take in time is dropped.
package tracing
