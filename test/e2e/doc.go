// Package e2e tests Pergola from outside: host and plugins as the processes that an operator runs, on a real API
// server.
package e2e
