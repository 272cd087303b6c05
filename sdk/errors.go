package sdk

import (
	"fmt"
	"slices"
	"time"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reasons of the sdk's own errors.
const (
	// ReasonConfigMissing: a deploy item has no provider configuration.
	ReasonConfigMissing = "ProviderConfigurationMissing"
	// ReasonConfigInvalid: a provider configuration cannot be read.
	ReasonConfigInvalid = "ParseProviderConfiguration"
	// ReasonTargetMissing: a deploy item has no Target although its deployer needs one.
	ReasonTargetMissing = "TargetMissing"
	// ReasonTargetInvalid: a Target cannot be used.
	ReasonTargetInvalid = "TargetInvalid"
	// ReasonPanic: a deployer or a hook panicked.
	ReasonPanic = "PluginPanic"
	// ReasonError: a deployer returned an error without a reason of its own.
	ReasonError = "DeployerError"
	// ReasonHookFailed: a hook returned an error without a reason of its own.
	ReasonHookFailed = "HookFailed"
	// ReasonProviderStatusUnknown: a provider status was saved by a newer version of the deployer, or by another one.
	ReasonProviderStatusUnknown = "ProviderStatusUnknown"
	// ReasonItemTooLarge: the deploy item would be too large with what its deployer has to keep in it.
	ReasonItemTooLarge = "DeployItemTooLarge"
	// ReasonTargetChanged: the Target leads to another cluster than the one with the deployed objects. A host without a
	// Landscaper then moves the deploy item if its user has named a Target for the old cluster: it calls Delete with
	// that Target, and calls the deployer for the new cluster without the provider status of the old one.
	ReasonTargetChanged = "TargetChanged"
	// ReasonHostTooOld: the host does not know something that a deployer cannot do without.
	ReasonHostTooOld = "HostTooOld"
)

// Error is an error of a deployer with Landscaper's classification. A deployer may return it wrapped in others or
// joined with others; the codes of the whole tree count.
//
// Without an unrecoverable code (see v1alpha1.ErrorCode) or ERR_NO_RETRY the call is retried with a growing pause until
// the job's time is up. With one the job has failed.
//
// Its text appears in the status of the deploy item and must hold no secrets.
type Error struct {
	// Codes classify the error; may be empty.
	Codes []v1alpha1.ErrorCode
	// Operation in one word, such as "Apply"; empty for the operation of the host, or the type of the hook.
	Operation string
	// Reason is a CamelCase word for machines; empty for ReasonError, or ReasonHookFailed from a hook.
	Reason string
	// Err names object, field, the found value and a remedy. Without it the text of the error is Reason.
	Err error
	// Problems are those of the provider configuration, for tools that list them; see ConfigurationProblems.
	Problems []Problem
	// TargetSilent: the target of the deploy item did not answer, or asked for a pause. The host makes one call at a
	// time for the deploy items of that target until one succeeds or is in progress, so that it does not hold up the
	// items of other targets.
	TargetSilent bool
	// RetryAfter is the least pause before the next try, such as a Retry-After of the target. It is at most an hour, and
	// ends with the job's time. Zero leaves the pause to the host.
	RetryAfter time.Duration
	// Heals: the cause may end without a change of the deploy item although the codes end the job, such as a policy that
	// rejects an object. A host without a Landscaper sets another job after a pause. Without codes it has no effect.
	Heals bool
	// Held is what the deploy item needs and another one of this control plane holds; the zero value for nothing. With it
	// the error heals. A host without a Landscaper waits for the other one if that is being deleted, and sets another job
	// when it is gone.
	Held Claim
}

// Claim is something on the target that one deploy item holds and another one needs.
type Claim struct {
	// DeployItem is the other deploy item, as the value of the label mark.DeployItem of its objects.
	DeployItem string
	// What they share, for users and for a comparison by the plugin, such as "release shop/web of chart web".
	What string
}

// Error returns the text of Err.
func (e *Error) Error() string {
	if e.Err == nil {
		return e.Reason
	}
	return e.Err.Error()
}

// Unwrap returns Err.
func (e *Error) Unwrap() error { return e.Err }

// ConfigurationError returns an *Error for a user's mistake, with code ERR_CONFIGURATION_PROBLEM: the job fails at
// once. The format is that of fmt.Errorf.
func ConfigurationError(reason, format string, args ...any) *Error {
	return &Error{
		Codes:  []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Reason: reason,
		Err:    fmt.Errorf(format, args...),
	}
}

// internalProblem wraps an error about a fault of a plugin or a host; nil for nil.
func internalProblem(err error) error {
	if err == nil {
		return nil
	}
	return &Error{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Err: err}
}

// Codes returns the codes of all Errors in the tree of err, innermost first and each once.
func Codes(err error) []v1alpha1.ErrorCode {
	var codes []v1alpha1.ErrorCode
	walk(err, func(e *Error) {
		for _, code := range e.Codes {
			if !slices.Contains(codes, code) {
				codes = append(codes, code)
			}
		}
	})
	return codes
}

// heals reports whether each Error in the tree of err that ends the job heals, and there is one.
func heals(err error) bool {
	ending, healing := 0, 0
	walk(err, func(e *Error) {
		if slices.ContainsFunc(e.Codes, v1alpha1.ErrorCode.EndsJob) {
			ending++
			if e.Heals || e.Held != (Claim{}) {
				healing++
			}
		}
	})
	return ending > 0 && ending == healing
}

// walk visits the Errors in the tree of err, inner ones before outer ones.
func walk(err error, visit func(*Error)) {
	switch wrapped := err.(type) { //nolint:errorlint // the tree is walked by hand, so that all errors in it are seen
	case interface{ Unwrap() error }:
		if inner := wrapped.Unwrap(); inner != nil {
			walk(inner, visit)
		}
	case interface{ Unwrap() []error }:
		for _, inner := range wrapped.Unwrap() {
			walk(inner, visit)
		}
	}
	if e, ok := err.(*Error); ok { //nolint:errorlint // see above
		visit(e)
	}
}
