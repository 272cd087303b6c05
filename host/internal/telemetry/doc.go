// Package telemetry is what an operator's tools see of a host from outside: metrics, and whether it is alive and ready.
package telemetry
