// Package v1alpha1 holds the API types landscaper.gardener.cloud/v1alpha1 that a deployer meets: DeployItem, Target,
// Context and SyncObject, and DeployerRegistration, by which an administrator has hooks called. Field names, short
// names and printer columns are those of Landscaper, so that objects written by a real Landscaper pass and the other
// way round.
//
// The types know only the fields of the deployer contract. Whoever writes such an object patches the fields that he
// owns and never updates it as a whole, so that fields which these types do not know survive.
//
// +kubebuilder:object:generate=true
// +groupName=landscaper.gardener.cloud
package v1alpha1
