// Package config reads the HostConfiguration: the versioned document with an operator's settings for the host.
//
// Load returns a configuration with defaults, or an error with a line for every problem. Reading is strict, so that a
// mistyped field is not taken for one left out: unknown fields, duplicate keys and values of another type are errors.
// Nothing here reads the environment; the one default that depends on it is an argument.
//
// A new field needs its default in Default, its check in Validate, and its row and its place in the example of
// docs/host-configuration.md. Tests compare the page with the types.
package config
