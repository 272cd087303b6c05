// Package managedresource holds the common parts of the provider configurations and provider statuses of deployers of
// Kubernetes objects: manifests with their policies, records of managed objects, exports, readiness checks, deletion
// groups and continuous reconciliation.
//
// The JSON names are those of Landscaper, so documents written for a real Landscaper decode. The types describe the
// documents; the validation of a deployer decides about the supported parts.
package managedresource
