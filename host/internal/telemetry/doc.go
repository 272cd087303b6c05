// Package telemetry is what an operator's tools see of a host from outside: metrics, whether it is alive and ready, and the records
// in the log that the tools of a Landscaper look for: how busy its workers are, and what its autoscalers say. It opens the addresses at which
// a host answers over HTTP, and knows under which names.
package telemetry
