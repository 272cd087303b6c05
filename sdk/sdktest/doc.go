// Package sdktest runs a deployer through the protocol that the Pergola host speaks, and checks that it keeps the rules.
//
// New runs a deployer within the test's process, over a real socket. Start runs a finished plugin binary, however it was
// built and in whichever language, with the real handshake. Both give a Plugin, whose methods call the deployer as the host
// does and return what it said on the way and how the call ended:
//
//	plugin := sdktest.New(t, &deployer{}, sdk.Name("hello"), sdk.Types("example.org/hello"))
//	item := sdktest.DeployItem("example.org/hello", map[string]any{"greeting": "good morning"})
//	result := plugin.ReconcileUntilDone(ctx, sdktest.Call{DeployItem: item})
//
// Conform checks the rules in one go. A test of a deployer that is worth its name calls it, and then tests what the deployer
// does:
//
//	sdktest.Conform(t, plugin, sdktest.Case{Name: "greets", Call: sdktest.Call{DeployItem: item}})
//
// The package has a client side of the protocol of its own and shares none with the host, so that a mistake on one side
// cannot hide one on the other.
//
// # Rules
//
// Every call through a Plugin checks these and reports them to the test of the Plugin:
//
//   - one-result: a call sends exactly one result, and nothing after it.
//   - status-sequence: the sequence numbers of saved provider statuses rise within a call.
//   - status-kind: a provider status is a JSON object with apiVersion and kind.
//   - waiting-for: a result that the job is in progress says what is being waited for, and no negative poll interval.
//   - failed-says-why: a result that the call failed has at least one error; each has a reason and a message.
//   - exports-object: exports are a JSON object.
//   - call-ends: a call ends soon after it was cancelled. Of a deployer that New runs, this is checked when the test ends; of
//     a binary one sees no more than that the next call is answered.
//
// Conform checks these in addition:
//
//   - info-complete: GetInfo tells a name that is a DNS label, a version, and deploy item types that are not empty, each once.
//   - config-required: an item without a provider configuration fails with ERR_CONFIGURATION_PROBLEM, and the message names
//     spec.config.
//   - config-strict: an unknown field in the provider configuration fails with ERR_CONFIGURATION_PROBLEM, and the message
//     names the field.
//   - reconcile-succeeds: the job of a valid item succeeds, also after a call of it was cut short.
//   - reconcile-again: after success, the item with its saved provider status succeeds again.
//   - delete-succeeds: the deletion of the item succeeds.
//   - delete-again: a deletion of what is already gone succeeds.
package sdktest
