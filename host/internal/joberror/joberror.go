// Package joberror makes errors of jobs, as users see them, from those of plugins, Targets and the API server.
package joberror

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// BesideCounts is the weight of a crash beside other calls. After its first crash an item is poison, and most later
	// crashes are its own; one with crashes only beside others fails in the end, too.
	BesideCounts = 0.25

	// FirstRetry is the first pause between retries.
	FirstRetry = time.Second
	// MaxRetry is the longest pause between retries.
	MaxRetry = time.Minute
	// MaxRetryAfter bounds the pause that an error asks for: it may come from a target.
	MaxRetryAfter = time.Hour
)

// OperationResolveOther is the operation of errors about a Target at the plugin's request. After one about the item's
// own Target a deletion is restarted.
const OperationResolveOther = "ResolveOtherTarget"

// leaveBehind is the user's way out of a failing deletion.
const leaveBehind = "annotate the deploy item with " + v1alpha1.DeleteWithoutUninstallAnnotation +
	`: "true", and it goes without what it has deployed`

// FromHost describes an error of the host itself. Errors of package target have a reason; others are those of the API
// server, and are retried. Of joined errors the first one decides, and all are in the message.
func FromHost(operation string, err error) contract.Error {
	var contractErr contract.Error
	if errors.As(err, &contractErr) {
		return contractErr
	}
	e := contract.Error{Operation: operation, Reason: reasonHostError, Message: err.Error()}
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		e.Operation, e.Reason = contract.OperationResolve, string(targetErr.Reason)
		e.Terminal = targetErr.Reason == target.ReasonTargetNotFound // as in Landscaper: no code, and final
		if code := targetErr.Code(); code != "" {
			e.Codes = []v1alpha1.ErrorCode{code}
		}
	}
	return e
}

// FromOther describes an error about another Target than the item's own.
func FromOther(err error) contract.Error {
	e := FromHost(OperationResolveOther, err)
	e.Operation = OperationResolveOther
	e.Codes = ForPlugin(e).Codes
	return e
}

// ForPlugin is an error as the answer to a plugin. In the protocol only a code can end a job.
func ForPlugin(e contract.Error) plugin.Error {
	if e.Terminal && len(e.Codes) == 0 {
		e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	}
	return plugin.Error{Codes: e.Codes, Operation: e.Operation, Reason: e.Reason, Message: e.Message}
}

// Advise adds the user's remedy to an error of a deletion. Without its Target or its Context a deletion ends, because
// another try is in vain; it begins anew when the missing object comes back.
func Advise(e contract.Error) contract.Error {
	if e.Operation != contract.OperationResolve {
		return e
	}
	again := "; without it nothing can be deleted. Create it again, and the deletion goes on by itself"
	switch e.Reason {
	case contract.ReasonTargetNotFound, contract.ReasonContextNotFound:
		e.Terminal = true
	case contract.ReasonSecretNotFound:
	case string(target.ReasonServiceAccountNotFound): // no event shows its return
		again = ""
	default:
		return e
	}
	e.Message += again + ". Where it cannot be created, as in a namespace that is being deleted, " + leaveBehind
	return e
}

// FromCall is the error of a call without an outcome. It is an error of the job if the host could not give the plugin
// an object of the call, or if the plugin has broken the protocol.
func FromCall(err error) error {
	var withheld plugin.Error
	switch {
	case errors.As(err, &withheld):
		return Join([]plugin.Error{withheld})
	case errors.Is(err, plugin.ErrProtocol):
		return Protocol(err)
	default:
		return err
	}
}

const (
	reasonProtocolError = "PluginProtocolError"
	reasonHostError     = "HostError"
)

// Protocol is the error of a job whose plugin has broken the protocol.
func Protocol(err error) contract.Error {
	return contract.Error{Operation: "CallPlugin", Reason: reasonProtocolError, Message: err.Error()}
}

// The reasons of errors about a status of the plugin that the API server refuses.
const (
	reasonStatusTooLarge = "StatusTooLarge"
	reasonStatusRefused  = "StatusRefused"
)

// Refused is the error of a job whose plugin has a status that the API server refuses.
func Refused(plugin string, refused *itemclient.RefusedError) contract.Error {
	reason, remedy := reasonStatusRefused, "report it to the author of the plugin"
	if refused.TooLarge() {
		reason, remedy = reasonStatusTooLarge, "split the deploy item"
	}
	return contract.Error{
		Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Operation: "WriteStatus", Reason: reason,
		Message: fmt.Sprintf("with what the plugin %q has to keep in it, %v; %s", plugin, refused, remedy),
	}
}

// Join makes one error of those of a plugin: the status has room for one, in seven copies.
func Join(errs []plugin.Error) contract.Error {
	joined := contract.Error{Operation: errs[0].Operation, Reason: errs[0].Reason}
	// Only the host uses OperationResolve: after it a job is restarted when the item's Target and Context exist. A plugin
	// means another Target.
	if joined.Operation == contract.OperationResolve {
		joined.Operation = OperationResolveOther
	}
	if joined.Reason == "" {
		joined.Reason = "DeployerError"
	}
	ends := func(e plugin.Error) bool { return contract.Error{Codes: e.Codes}.Final() }
	lasts := func(e plugin.Error) bool { return ends(e) && !e.Heals && e.Held == (sdk.Claim{}) }
	joined.Heals = slices.ContainsFunc(errs, ends) && !slices.ContainsFunc(errs, lasts)
	messages := make([]string, 0, len(errs))
	for _, e := range errs {
		messages, joined.RetryAfter = append(messages, e.Message), max(joined.RetryAfter, e.RetryAfter)
		for _, code := range e.Codes {
			if !slices.Contains(joined.Codes, code) {
				joined.Codes = append(joined.Codes, code)
			}
		}
	}
	joined.Message = text.Cut(strings.Join(messages, "\n"), contract.MaxMessage)
	return joined
}

// Crash describes the plugin's crashes during a job. It is final from the limit on.
func Crash(e contract.Error, deletion bool, crashes float64, limit int) contract.Error {
	e.Reason = contract.ReasonPluginCrashed
	if crashes < float64(limit) {
		e.Message = fmt.Sprintf("%s (%g of %d); it is tried again when the plugin runs", e.Message, crashes, limit)
		return e
	}
	e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}
	times := fmt.Sprintf("%g times", crashes)
	if crashes == 1 {
		times = "once"
	}
	e.Message = fmt.Sprintf(
		"%s, %s for this job; its last words are in the host's log. A new job tries it again", e.Message, times)
	if deletion {
		e.Message += "; or " + leaveBehind
	}
	return e
}

// Level is the log Level of an error.
func Level(e contract.Error) slog.Level {
	if e.ForInfoOnly() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

// EventType is the type of the Event about an error.
func EventType(e contract.Error) string {
	if e.ForInfoOnly() {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// RetryPause is the pause after a number of failures in a row: it doubles from a second to a minute. random, in [0,
// 1), shortens it by up to a fifth: jobs that fail together are not retried together.
func RetryPause(failures int, random float64) time.Duration {
	pause := MaxRetry
	if failures < 6 {
		pause = min(FirstRetry<<failures, MaxRetry)
	}
	return pause - time.Duration(random*float64(pause)/5)
}
