package plugin

import (
	"github.com/pergola-deploy/pergola/host/internal/plugin/session"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// These are the inputs and outcomes of calls.
type (
	// Operation of a deployer.
	Operation = session.Operation
	// Call is the input of an operation.
	Call = session.Call
	// Observer takes the messages of a plugin during a call.
	Observer = session.Observer
	// Rendered are the desired objects of a deploy item, or Errors.
	Rendered = session.Rendered
	// Diff is a preview of a job, or Errors.
	Diff = session.Diff
	// Validation is the answer of a plugin about the provider configuration of an item.
	Validation = hostside.Validation
	// HostCluster gives the access to the cluster of the host.
	HostCluster = session.HostCluster
	// Installation returns the mark of the host's control plane on deployed objects.
	Installation = session.Installation
	// Info describes a plugin in its own words.
	Info = hostside.Info
	// Capabilities are the optional parts of the protocol that a plugin implements.
	Capabilities = hostside.Capabilities
	// Limits bound the calls of a plugin.
	Limits = hostside.Limits
	// Outcome is the end of an operation.
	Outcome = hostside.Outcome
	// Succeeded is the outcome of a finished job.
	Succeeded = hostside.Succeeded
	// InProgress is the outcome of a job that waits.
	InProgress = sdk.InProgress
	// HookCall is the input of hook functions.
	HookCall = hostside.HookCall
	// HookOutcome is the answer of one hook function.
	HookOutcome = hostside.HookOutcome
	// Error is one reason of a failure, or of a question without an answer.
	Error = hostside.Error
)

// CallFor returns the input of a call outside of a job.
var CallFor = session.CallFor

// The operations of a deployer.
const (
	Reconcile      = session.Reconcile
	Delete         = session.Delete
	Abort          = session.Abort
	ForceReconcile = session.ForceReconcile
	CheckHealth    = session.CheckHealth
)

// The errors of calls.
var (
	ErrNotRunning  = session.ErrNotRunning
	ErrUnhealthy   = session.ErrUnhealthy
	ErrCrashed     = session.ErrCrashed
	ErrBeside      = session.ErrBeside
	ErrInterrupted = session.ErrInterrupted
	ErrProtocol    = session.ErrProtocol
)
