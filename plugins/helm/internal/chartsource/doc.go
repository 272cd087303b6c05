// Package chartsource gets the archive of a chart from where the provider configuration says it is, and keeps it in a
// cache on disk.
//
// # Sources
//
// There are archives in the provider configuration itself, archives at an address, charts in OCI registries and charts
// in chart repositories. Charts of the component model need a resolver; see package plugins/helm/chart. Nothing here
// looks into an archive further than to its first bytes, which must be those of gzip.
//
// # Credentials
//
// Registries get the credentials of docker configurations that match them, the most specific first, one after the
// other until one is accepted. Without any they are asked anonymously. A registry that wants a token says where it is
// issued, as Docker's protocol has it, and that server gets the same credentials; it must be of https unless the
// registry is not, and may be at an internal address only if it is at that of the registry.
//
// Chart repositories, and archives at an address, get those for their address. A chart that a repository has elsewhere
// gets them too if it is on the same server, and otherwise those for its own address, if there are some.
//
// # Cache
//
// An archive is known by its source and by the credentials that it was fetched with, so that nobody gets a chart who
// could not have downloaded it: neither who has fewer credentials, nor who knows no more than its digest. Of
// credentials only hashes are kept. The files do not outlive the process, and after a restart each source is
// downloaded once.
//
//   - A chart in a registry by its digest does not change: once it is here, nobody is asked.
//   - A tag is looked up again, with one request for its manifest, and those for authentication.
//   - The index of a repository is asked for with the validators that came with it, and downloaded again if the server
//     knows none. A chart with a digest in the index is downloaded again only when that digest or its address has
//     changed.
//   - An archive at an address is asked for with its validators, too.
//
// What was looked up is good for a few seconds (FreshFor), so that many items of one chart do not ask one by one, and
// those that ask at the same time share one answer. So a tag that was moved may be deployed as it was those few
// seconds ago; the digest in the provider status tells.
//
// # Errors
//
// All errors are *sdk.Error, but for that of a context that has ended, which is its cause.
//
//	reason                   when                                             code                       the call
//	ChartSourceInvalid       the source cannot be right                       ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolverMissing     nobody knows the component model                 ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolveFailed       the resolver has failed                          those of the resolver      as it says
//	ChartArchiveInvalid      what is there is no chart, or no index           ERR_CONFIGURATION_PROBLEM  fails
//	ChartTooLarge            it is larger than allowed                        ERR_CONFIGURATION_PROBLEM  fails
//	ChartDigestMismatch      its digest is not what it should be              ERR_CONFIGURATION_PROBLEM  fails
//	ChartUnauthorized        the server refuses the credentials               ERR_UNAUTHORIZED           fails
//	ChartCredentialsMissing  the server wants credentials, there are none     ERR_CONFIGURATION_PROBLEM  fails
//	ChartCredentialsInvalid  the credentials for the server cannot be used    none                       is retried
//	ChartNotFound            there is no such chart, or version, yet          none                       is retried
//	ChartUnavailable         no answer, or one that says try again            none                       is retried
//	ChartCacheFailed         the disk                                         none                       is retried
//	ChartFetchPanic          a mistake in the deployer                        ERR_INTERNAL_PROBLEM       fails
package chartsource
