package sdktest

import (
	"encoding/json"
	"fmt"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// The types of package conformance.
type (
	// Plugin calls a deployer through the protocol. It belongs to the test of New or Start: it ends with it, and reports
	// broken rules to it.
	Plugin = conformance.Plugin
	// Call is the input of a call, and the behaviour of the host meanwhile.
	Call = conformance.Call
	// Case is a valid deploy item for Conform to deploy and delete.
	Case = conformance.Case
	// Result is the end of a call, and the messages before it.
	Result = conformance.Result
	// Succeeded is the result of a finished job.
	Succeeded = conformance.Succeeded
	// Failed is the result of a failed call.
	Failed = conformance.Failed //nolint:errname // it is first of all the result of a call, beside Succeeded
	// Error is one error as the host gets it.
	Error = conformance.Error
	// Message is one message of the deployer during a call.
	Message = conformance.Message
	// Progress is the current step of a deployer.
	Progress = conformance.Progress
	// Event is a Kubernetes event of the deploy item.
	Event = conformance.Event
	// Info is the description of a plugin by itself.
	Info = conformance.Info
	// Capabilities are the optional parts of the protocol in a plugin.
	Capabilities = hostside.Capabilities
	// HookOutcome is the answer of one hook function.
	HookOutcome = conformance.HookOutcome
)

// DeployItem returns a deploy item with the given provider configuration, which is marshalled as JSON; nil for none.
// It panics if that is not possible.
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
