// Package fetch gets content from registries and web servers into a cache on disk.
//
// # Credentials
//
// A registry gets the logins of docker configurations for it, the most specific first, one after the other until it
// accepts one. Without any login it is asked anonymously. If it names a server of tokens, as in Docker's protocol,
// this server gets the same login: by https unless the registry is reached without TLS, and at an internal address
// only if the registry has this address.
//
// The caller finds the credentials for an address with CredentialsFor. After a redirect, another server gets none.
//
// # Cache
//
// The key of a file has its source and its credentials. So a caller gets only files for its own accepted credentials;
// neither fewer credentials nor a digest alone are enough. The cache keeps only hashes of credentials. Files do not
// outlive the process.
//
// A lookup counts for a few seconds (FreshFor), and concurrent callers share one answer. So a job may deploy a moved
// tag as it was those few seconds ago. Later a tag costs one request for its manifest, and an address one with
// validators. A source with a digest does not change and costs no request.
package fetch
