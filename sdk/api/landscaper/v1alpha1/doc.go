// Package v1alpha1 holds the API types landscaper.gardener.cloud/v1alpha1 for deployers: DeployItem, Target, Context
// and SyncObject, and DeployerRegistration for an administrator's HTTP hooks. Field names, short names and printer
// columns are those of Landscaper, so that objects written by a real Landscaper pass and the other way round.
//
// The types know only the fields of the deployer contract. A writer of such an object patches its own fields and never
// updates the object as a whole, so that fields unknown to these types survive.
//
// +kubebuilder:object:generate=true
// +groupName=landscaper.gardener.cloud
package v1alpha1
