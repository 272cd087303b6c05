package sdk

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/pergola-deploy/pergola/proto/handshake"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Reasons that the sdk itself gives to errors.
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
	// ReasonHostTooOld: the host does not know something that a deployer cannot do without.
	ReasonHostTooOld = "HostTooOld"
)

// Error is an error of a deployer with what Landscaper wants to know of it. A deployer may return it wrapped in
// others or joined with others; the codes of the whole tree count.
//
// Without an unrecoverable code (see v1alpha1.ErrorCode) or ERR_NO_RETRY the call is retried with a growing pause
// until the job's time is up. With one the job has failed.
//
// Its text appears in the status of the deploy item and must hold no secrets.
type Error struct {
	// Codes classify the error; may be empty.
	Codes []v1alpha1.ErrorCode
	// Operation says what was being done, in one word such as "Apply"; empty for the operation of the host, or the
	// type of the hook.
	Operation string
	// Reason is a CamelCase word for machines; empty for ReasonError, or ReasonHookFailed from a hook.
	Reason string
	// Err says what is wrong: object, field, what was found, what to do. Without it the text of the error is Reason.
	Err error
	// TargetSilent: the target of the deploy item did not answer, or wants to be left alone. The host makes one call at
	// a time for the deploy items of that target until one succeeds or is in progress, so that it does not hold up the
	// items of others.
	TargetSilent bool
	// RetryAfter is the least pause before the next try, such as the target asks for. The host bounds it by a minute.
	// Zero leaves the pause to the host.
	RetryAfter time.Duration
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

// internalProblem is the error of what a plugin or a host has done wrong itself; nil for nil.
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

// errorFromWire reads why the host has not given what was asked for; operation and message stand for what it does not
// say.
func errorFromWire(operation, message string, in *deployerv1.Error) *Error {
	return &Error{
		Codes:     convert(in.GetCodes(), func(code string) v1alpha1.ErrorCode { return v1alpha1.ErrorCode(code) }),
		Operation: cmp.Or(in.GetOperation(), operation),
		Reason:    in.GetReason(),
		Err:       errors.New(cmp.Or(in.GetMessage(), message)),
	}
}

func failedToWire(operation string, err error) *deployerv1.Failed {
	return &deployerv1.Failed{Errors: []*deployerv1.Error{errorToWire(operation, ReasonError, err)}}
}

// confinementHint tells the user of a confined plugin what permission may be missing: the system's own words do not.
const confinementHint = " (the plugin is confined: it can only write below $TMPDIR, " +
	"and read what every program needs; " +
	"an operator can give it more with plugins.<name>.confinement of the HostConfiguration)"

// errorToWire describes an error. Operation and reason are those of the outermost Error in its chain, or else the
// given ones.
func errorToWire(operation, reason string, err error) *deployerv1.Error {
	outermost := &Error{}
	errors.As(err, &outermost)
	out := &deployerv1.Error{
		Codes:     convert(Codes(err), func(code v1alpha1.ErrorCode) string { return string(code) }),
		Operation: cmp.Or(outermost.Operation, operation),
		Reason:    cmp.Or(outermost.Reason, reason),
		Message:   err.Error(),
	}
	walk(err, func(e *Error) {
		out.TargetSilent = out.GetTargetSilent() || e.TargetSilent
		if e.RetryAfter > out.GetRetryAfter().AsDuration() {
			out.RetryAfter = durationpb.New(e.RetryAfter)
		}
	})
	if os.Getenv(handshake.ConfinedEnv) != "" && errors.Is(err, fs.ErrPermission) {
		out.Message += confinementHint
	}
	return out
}
