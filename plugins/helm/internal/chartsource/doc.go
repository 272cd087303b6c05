// Package chartsource gets the archive of a chart from its source in the provider configuration, with the cache of
// package fetch.
//
// # Sources
//
// A source is an archive in the provider configuration itself, an archive at an address, a chart in an OCI registry,
// a chart in a chart repository, or a chart as the resource of a component version, read by package component. Others
// need a resolver; see package plugins/helm/chart. Content of servers is read elsewhere: archives and indexes of
// repositories by a worker, documents of components by package component within bounds. Of an archive only the first
// bytes are checked here: they must be those of gzip.
//
// A chart repository, and an archive at an address, get the credentials for their address. An archive outside its
// repository gets them too if it is on the same server, and otherwise those for its own address, if there are some. A
// chart with a digest in the index is downloaded again only after a change of its digest or address.
//
// # Errors
//
// All errors are *sdk.Error, except for the cause of an ended context.
//
//	reason                   when                                             code                       the call
//	ChartSourceInvalid       the source is invalid                            ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolverMissing     fromResource has no resolver                     ERR_CONFIGURATION_PROBLEM  fails
//	ChartResolveFailed       the resolver has failed                          those of the resolver      as it says
//	ChartComponentInvalid    the component leads to no chart                  ERR_CONFIGURATION_PROBLEM  fails
//	ChartArchiveInvalid      the content is no chart, or no index             ERR_CONFIGURATION_PROBLEM  fails
//	ChartTooLarge            it is larger than allowed                        ERR_CONFIGURATION_PROBLEM  fails
//	ChartDigestMismatch      its digest is another than expected              ERR_CONFIGURATION_PROBLEM  fails
//	ChartUnauthorized        the server refuses the credentials               ERR_UNAUTHORIZED           fails
//	ChartCredentialsMissing  the server wants credentials, there are none     ERR_CONFIGURATION_PROBLEM  fails
//	ChartCredentialsInvalid  the credentials for the server cannot be used    none                       is retried
//	ChartNotFound            there is no such chart, version or component yet none                       is retried
//	ChartUnavailable         no answer, or one to try again                   none                       is retried
//	ChartCacheFailed         the disk                                         none                       is retried
//	ChartFetchPanic          a mistake in the deployer                        ERR_INTERNAL_PROBLEM       fails
package chartsource
