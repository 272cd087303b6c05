// Package sdktest runs a deployer through the protocol that the Pergola host speaks, and checks that it keeps the
// rules.
//
// New runs a deployer within the test's process, over a real socket. Start runs a finished plugin binary, however it
// was built and in whichever language, with the real handshake. Both give a Plugin, whose methods call the deployer as
// the host does and return what it said on the way and how the call ended:
//
//	plugin := sdktest.New(t, &deployer{}, sdk.Name("hello"), sdk.Types("example.org/hello"))
//	item := sdktest.DeployItem("example.org/hello", map[string]any{"greeting": "good morning"})
//	result := plugin.ReconcileUntilDone(ctx, sdktest.Call{DeployItem: item})
//
// Conform checks the rules in one go. A test of a deployer that is worth its name calls it, and then tests what the
// deployer does:
//
//	sdktest.Conform(t, plugin, sdktest.Case{Name: "greets", Call: sdktest.Call{DeployItem: item}})
//
// Package conformance has the rules and the client of the protocol; this one binds them to a test. Every call through a
// Plugin checks the rules about what is said in a call, such as one-result, and reports them to the test of the Plugin.
package sdktest
