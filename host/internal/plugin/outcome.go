package plugin

import (
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// These are read by package hostside.
type (
	// Info describes a plugin in its own words.
	Info = hostside.Info
	// Capabilities are the optional parts of the protocol that a plugin implements.
	Capabilities = hostside.Capabilities
	// Outcome is the end of an operation.
	Outcome = hostside.Outcome
	// Succeeded is the outcome of a job that is done.
	Succeeded = hostside.Succeeded
	// InProgress is the outcome of a job that waits.
	InProgress = sdk.InProgress
	// HookOutcome is the answer of one hook function.
	HookOutcome = hostside.HookOutcome
	// Error is one reason of a failure, or why the host cannot answer a question.
	Error = hostside.Error
)

const maxText = hostside.MaxText

var (
	bounded = hostside.Bounded
	cut     = hostside.Cut
)
