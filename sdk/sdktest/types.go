package sdktest

import (
	"encoding/json"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// What a deployer is called with, what it answers and which rules there are is the same as without a test; package
// conformance describes it.
type (
	// Plugin is a deployer that is called through the protocol. It ends with the test that New or Start made it for,
	// which hears of the rules that its calls break.
	Plugin = conformance.Plugin
	// Call is what a deployer is called with, and how the host behaves meanwhile.
	Call = conformance.Call
	// Case is a valid deploy item that Conform deploys and deletes again.
	Case = conformance.Case
	// Result is how a call ended, and what was said on the way.
	Result = conformance.Result
	// Succeeded is the result of a job that is done.
	Succeeded = conformance.Succeeded
	// Failed is the result of a call that failed.
	Failed = conformance.Failed //nolint:errname // it is first of all the result of a call, beside Succeeded
	// Error is one error as the host gets it.
	Error = conformance.Error
	// Message is one thing that the deployer said during a call.
	Message = conformance.Message
	// Progress says what a deployer does or waits for.
	Progress = conformance.Progress
	// Event is a Kubernetes event of the deploy item.
	Event = conformance.Event
	// Info is what a plugin tells about itself.
	Info = conformance.Info
	// Capabilities are the optional parts of the protocol that a plugin implements.
	Capabilities = conformance.Capabilities
	// HookOutcome is what one hook function returned.
	HookOutcome = conformance.HookOutcome
)

// DeployItem returns a deploy item with the given provider configuration, which is marshalled as JSON; nil for none.
// It panics if that is not possible, which is a mistake in the test.
func DeployItem(itemType v1alpha1.DeployItemType, config any) *v1alpha1.DeployItem {
	if config == nil {
		return conformance.DeployItem(itemType, nil)
	}
	document, err := json.Marshal(config)
	if err != nil {
		panic(fmt.Sprintf("sdktest: marshal provider configuration: %v", err)) //nolint:forbidigo // a mistake in the test
	}
	return conformance.DeployItem(itemType, document)
}
