// Package sdk is for the authors of deployers. A deployer is a program of its own; the Pergola host starts and calls
// it, and sdk hides how. The smallest deployer implements Deployer and hands it to Serve:
//
//	func main() {
//		sdk.Serve(&deployer{}, sdk.Name("hello"), sdk.Types("example.org/hello"))
//	}
//
// The host has the common parts of all deployers: it decides about responsibility, follows Landscaper's job protocol,
// resolves and checks the Target, keeps the provider status, retries, limits the time and writes status, events and
// exports. A deployer creates, updates and deletes the objects of its items, and names the things it waits for.
//
// # Waiting
//
// A deployer does not block while it waits for something outside. It returns InProgress and is called again, by this
// host or by another one, and continues from its objects and its provider status. Only real work, such as a long
// computation, stays within one call.
//
// # Provider status
//
// A deployer saves its memory, such as the objects it is about to create, with Request.SaveProviderStatus before it
// goes on. After a crash at any point the next call gets the last saved provider status.
//
// # Hooks
//
// A Hooker has functions for fixed points of the host's reconcile flow, for its own items or, with HookedTypes, for
// those of others; see package hook. A plugin of nothing but hooks calls ServeHooks.
//
// # Errors
//
// An error with one of Landscaper's unrecoverable codes ends the job, any other is retried until the job's time is up.
// ConfigurationError is for the mistakes of users. A panic ends the call, not the program, and fails the job.
//
// Package sdktest checks a deployer against these rules, in a test or as a finished binary.
package sdk
