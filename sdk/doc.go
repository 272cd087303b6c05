// Package sdk is what the author of a deployer imports. A deployer is a program of its own that the Pergola host
// starts and calls; sdk hides how. The smallest one implements Deployer and hands it to Serve:
//
//	func main() {
//		sdk.Serve(&deployer{}, sdk.Name("hello"), sdk.Types("example.org/hello"))
//	}
//
// The host does what every deployer needs: it decides who is responsible, follows Landscaper's job protocol, resolves
// and checks the Target, keeps the provider status, retries, limits the time and writes status, events and exports. A
// deployer creates, updates and deletes what its items describe, and says what it waits for.
//
// # Waiting
//
// A deployer does not block while it waits for something outside. It returns InProgress and is called again, by this
// host or by another one, and finds what it needs in what it has created and in its provider status. Only work that
// really takes its time, such as a long computation, stays within one call.
//
// # Provider status
//
// What a deployer must not forget, such as the objects it is about to create, it saves with
// Request.SaveProviderStatus before it goes on. After a crash at any point the next call gets what was saved.
//
// # Hooks
//
// A Hooker has functions that run at fixed points of the host's reconcile flow, for the items that it deploys or,
// with HookedTypes, for those of others; see package hook. A plugin that has nothing but hooks calls ServeHooks.
//
// # Errors
//
// An error with a code that Landscaper calls unrecoverable ends the job, any other is retried until the job's time is
// up. ConfigurationError is for the mistakes of users. A panic ends the call, not the program, and fails the job.
//
// Package sdktest checks a deployer against these rules, in a test or as a finished binary.
package sdk
