// Package fetch gets content from registries and web servers into a cache on disk.
//
// # Credentials
//
// Registries get the credentials of docker configurations that match them, the most specific first, one after the
// other until one is accepted. Without any they are asked anonymously. A registry that wants a token says where it is
// issued, as Docker's protocol has it, and that server gets the same credentials; it must be of https unless the
// registry is not, and may be at an internal address only if it is at that of the registry.
//
// Addresses get the credentials that their caller has found for them with CredentialsFor. After a redirect to another
// server they get none.
//
// # Cache
//
// A file is known by its source and by the credentials that it was fetched with, so that nobody gets one who could not
// have downloaded it: neither who has fewer credentials, nor who knows no more than its digest. Of credentials only
// hashes are kept. The files do not outlive the process, and after a restart each source is downloaded once.
//
// What was looked up is good for a few seconds (FreshFor), so that many items with one source do not ask one by one,
// and those that ask at the same time share one answer. So a tag that was moved may be deployed as it was those few
// seconds ago. After that a tag is looked up with one request for its manifest, and an address is asked with the
// validators that came with it. A source with a digest does not change: once it is here, nobody is asked.
package fetch
