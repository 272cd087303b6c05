// Package chartsource gets the archive of a chart from where the provider configuration says it is, by package fetch,
// which keeps it in a cache.
//
// # Sources
//
// There are archives in the provider configuration itself, archives at an address, charts in OCI registries, charts in
// chart repositories, and charts that are resources of component versions, which package component reads. Others need a
// resolver; see package plugins/helm/chart. Nothing here looks into an archive further than to its first bytes, which
// must be those of gzip.
//
// A chart repository, and an archive at an address, get the credentials for their address. A chart that a repository
// has elsewhere gets them too if it is on the same server, and otherwise those for its own address, if there are some.
// A chart with a digest in the index is downloaded again only when that digest or its address has changed.
//
// # Errors
//
// All errors are *sdk.Error, but for that of a context that has ended, which is its cause.
//
//	reason                   when                                             code                       the call
//	ChartSourceInvalid       the source cannot be right                       ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolverMissing     fromResource has no resolver                     ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolveFailed       the resolver has failed                          those of the resolver      as it says
//	ChartComponentInvalid    the component leads to no chart                  ERR_CONFIGURATION_PROBLEM  fails
//	ChartArchiveInvalid      what is there is no chart, or no index           ERR_CONFIGURATION_PROBLEM  fails
//	ChartTooLarge            it is larger than allowed                        ERR_CONFIGURATION_PROBLEM  fails
//	ChartDigestMismatch      its digest is not what it should be              ERR_CONFIGURATION_PROBLEM  fails
//	ChartUnauthorized        the server refuses the credentials               ERR_UNAUTHORIZED           fails
//	ChartCredentialsMissing  the server wants credentials, there are none     ERR_CONFIGURATION_PROBLEM  fails
//	ChartCredentialsInvalid  the credentials for the server cannot be used    none                       is retried
//	ChartNotFound            there is no such chart, version or component yet none                       is retried
//	ChartUnavailable         no answer, or one that says try again            none                       is retried
//	ChartCacheFailed         the disk                                         none                       is retried
//	ChartFetchPanic          a mistake in the deployer                        ERR_INTERNAL_PROBLEM       fails
package chartsource
