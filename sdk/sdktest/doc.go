// Package sdktest runs a deployer through the protocol of the Pergola host, and checks the rules.
//
// New runs a deployer within the test's process, over a real socket. Start runs a finished plugin binary, however it
// was built and in any language, with the real handshake. Both return a Plugin. Its methods call the deployer as the
// host does, and return its messages and the end of the call:
//
//	plugin := sdktest.New(t, &deployer{}, sdk.Name("hello"), sdk.Types("example.org/hello"))
//	item := sdktest.DeployItem("example.org/hello", map[string]any{"greeting": "good morning"})
//	result := plugin.ReconcileUntilDone(ctx, sdktest.Call{DeployItem: item})
//
// Conform checks all rules. A good test of a deployer calls it, and then tests the effects of the deployer:
//
//	sdktest.Conform(t, plugin, sdktest.Case{Name: "greets", Call: sdktest.Call{DeployItem: item}})
//
// Package conformance has the rules and the client of the protocol; this package binds them to a test. Every call
// through a Plugin checks the rules of calls, such as one-result, and reports breaches to the test of the Plugin.
package sdktest
