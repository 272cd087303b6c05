// Package managedresource holds the parts of provider configurations and provider statuses that the deployers of
// Kubernetes objects have in common: manifests with their policies, what is kept about the objects that a deployer
// manages, exports, readiness checks, deletion groups and continuous reconciliation.
//
// The JSON names are those of Landscaper, so that documents written for a real Landscaper decode. The types describe
// the documents; which parts a deployer carries out is told by its validation.
package managedresource
