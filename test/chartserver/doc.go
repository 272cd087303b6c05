// Package chartserver has what charts are downloaded from, on loopback, for tests and the demo: an OCI registry, a chart repository and a
// server of plain files. They serve with TLS by a private certificate authority, or without; ask for credentials as the real ones do; keep
// books of their requests with all headers, so that a test can prove who was told what; and misbehave on demand.
package chartserver
