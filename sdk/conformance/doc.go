// Package conformance checks the rules of the protocol for any plugin, in any language. It needs neither a cluster nor
// a test: it takes the place of the host, calls the plugin as the host does, and also as a host must not, and reports
// for each rule whether the plugin keeps it.
//
//	report, err := conformance.Binary(ctx, "bin/plugins/hello", conformance.Options{})
//
// Binary starts a finished program with the real handshake. Attached checks a running plugin, such as in a debugger.
// Rules lists the rules. Those of deploying and deleting are checked for the deploy items of Options.Cases.
//
// Package sdktest is the same for the tests of a deployer.
//
// Every wait has an end, and the whole process group of a started program is killed in the end.
package conformance
