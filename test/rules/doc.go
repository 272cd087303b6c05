// Command rules writes test/rules.md from the comments about rules at the tests. A comment is at a test function, or
// above the entry of a table or the call of Run with the name of a subtest:
//
//	// Rule (manifest.md#manifests): An object with the policy keep is never deleted.
//	{"keep", …
//
// It names the page and the section with the promise. At the function, and where the next text in the code is not the
// name of the subtest, it also names the subtest; outside of the function the test, too:
//
//	// Rule (manifest.md#manifests, /keep): An object with the policy keep is never deleted.
//	// Rule (manifest.md#manifests, TestPolicies/keep): An object with the policy keep is never deleted.
//
// In a scenario (*.txtar) the comment begins with # and a line of its own.
//
// With -ran it checks in the output of `go test -json` that the named subtests have run.
package main
