// Package run carries out the job of a container: it starts the Pod of the run, waits for its end, notes the outcome,
// keeps the state and removes the rest. Package pod has the requests and judges the Pod.
//
// A job has one run, named after the item, the job and the operation. The run is noted in the provider status before
// the creation of its objects, and its outcome before their removal. So the next call, after a crash or in another
// replica, finds the existing Pod, and never repeats a finished run. A Pod has a finalizer until its outcome is
// noted, to tell a deleted Pod from one never created.
package run
