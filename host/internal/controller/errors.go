package controller

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// asError describes an error of the host itself. That of package target has a reason; any other is one of the API
// server and is retried. Of joined errors the first one decides, and all are in the message.
func asError(operation string, err error) contract.Error {
	var contractErr contract.Error
	if errors.As(err, &contractErr) {
		return contractErr
	}
	e := contract.Error{Operation: operation, Reason: "HostError", Message: err.Error()}
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

// advise adds to an error of a deletion that cannot be carried out what the user can do about it. Without its Target or
// its Context such a deletion ends, because nothing can come of trying it again; it begins anew when what is missing
// comes back.
func (j *job) advise(e contract.Error) contract.Error {
	if !j.decision.Deletion || e.Operation != contract.OperationResolve {
		return e
	}
	again := "; without it nothing can be deleted. Create it again, and the deletion goes on by itself"
	switch e.Reason {
	case contract.ReasonTargetNotFound, contract.ReasonContextNotFound:
		e.Terminal = true
	case contract.ReasonSecretNotFound:
	case string(target.ReasonServiceAccountNotFound): // which no event tells of
		again = ""
	default:
		return e
	}
	e.Message += again + ". Where it cannot be created, as in a namespace that is being deleted, " + leaveBehind
	return e
}

// ignoreMissing returns nil for an error that says that a Target or a Context is missing or wrong.
func ignoreMissing(err error) error {
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		return nil
	}
	return err
}

// callError is the error of a call without an outcome. If the host could not give the plugin what it needs, or the
// plugin has broken the protocol, it is an error of the job.
func callError(err error) error {
	var withheld plugin.Error
	switch {
	case errors.As(err, &withheld):
		return joinErrors([]plugin.Error{withheld})
	case errors.Is(err, plugin.ErrProtocol):
		return protocolError(err)
	default:
		return err
	}
}

// joinErrors makes one error of those of a plugin: the status has room for one, in seven copies. Only the host uses
// contract.OperationResolve, after which a job is restarted when the item's Target and Context exist; a plugin that
// names it means a Target that it has asked for.
func joinErrors(errs []plugin.Error) contract.Error {
	joined := contract.Error{Operation: errs[0].Operation, Reason: errs[0].Reason}
	if joined.Operation == contract.OperationResolve {
		joined.Operation = operationResolveOther
	}
	if joined.Reason == "" {
		joined.Reason = "DeployerError"
	}
	messages := make([]string, 0, len(errs))
	for _, e := range errs {
		messages, joined.RetryAfter = append(messages, e.Message), max(joined.RetryAfter, e.RetryAfter)
		for _, code := range e.Codes {
			if !slices.Contains(joined.Codes, code) {
				joined.Codes = append(joined.Codes, code)
			}
		}
	}
	joined.Message = text.Cut(strings.Join(messages, "\n"), maxMessage)
	return joined
}

// level is the level at which an error is logged.
func level(e contract.Error) slog.Level {
	if e.ForInfoOnly() {
		return slog.LevelInfo
	}
	return slog.LevelWarn
}

func eventType(e contract.Error) string {
	if e.ForInfoOnly() {
		return corev1.EventTypeNormal
	}
	return corev1.EventTypeWarning
}

// timeoutError is contract.TimeoutError. Without a Landscaper, a job that has waited for something that was missing is
// restarted when that exists; see contract.FailedForMissingReference.
func (j *job) timeoutError(item *v1alpha1.DeployItem, underWay string) contract.Error {
	e := contract.TimeoutError(item, underWay)
	if j.r.options.Standalone && underWay == "" && contract.WaitsForReference(item) {
		e.Operation = contract.OperationResolve
	}
	return e
}

func protocolError(err error) contract.Error {
	return contract.Error{Operation: "CallPlugin", Reason: "PluginProtocolError", Message: err.Error()}
}

const (
	// defaultMaxCrashes is the default of Options.MaxCrashes.
	defaultMaxCrashes = 3
	// besideCounts is what a crash beside other calls counts for. An item that crashes its plugin is poison since its
	// first crash, so that most of its crashes are its own; one that does so only beside others fails in the end, too.
	besideCounts = 0.25
)

// leaveBehind says what a user can do about a deletion that fails.
const leaveBehind = "annotate the deploy item with " + v1alpha1.DeleteWithoutUninstallAnnotation +
	`: "true", and it goes without what it has deployed`

// countCrash counts that a plugin has crashed during the job's call, or during a hook for it, which e names. At the
// limit the job fails, because it may be what crashes the plugin, and with it the calls of others. The count is in the
// status, so that all replicas share it and it outlives them.
func (j *job) countCrash(ctx context.Context, e contract.Error, beside bool) error {
	where := contract.Error{
		Operation: "CallPlugin", Message: fmt.Sprintf("the plugin %q ended in the middle of the call", j.r.name),
	}
	if e.Plugin != "" {
		where = contract.Error{
			Operation: e.Operation,
			Message:   fmt.Sprintf("the plugin %q ended in the middle of its %s hook", e.Plugin, e.Operation),
		}
	}
	crashes := contract.Crashes(j.item) + 1
	if beside { // each of the calls may be why, so that this proves little
		crashes += besideCounts - 1
		where.Message += ", beside other calls"
	}
	crash := crashError(where, j.decision.Deletion, crashes, j.r.options.MaxCrashes)
	if crash.Final() {
		return j.handleError(ctx, crash)
	}
	j.known.waitsFor = cmp.Or(e.Plugin, j.r.name)
	j.noteWith(func(item *v1alpha1.DeployItem) { contract.NoteCrashes(item, crashes, j.r.clock.Now()) })
	return j.retry(ctx, crash, j.pollInterval(pluginPoll))
}

// crashError says how often a plugin has crashed during calls for a job. It is final from the limit on.
func crashError(e contract.Error, deletion bool, crashes float64, limit int) contract.Error {
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

// retryPause is the pause after a number of failures in a row: it doubles from a second to a minute. random, in [0, 1),
// shortens it by up to a fifth, so that jobs that fail together are not retried together.
func retryPause(failures int, random float64) time.Duration {
	pause := maxRetry
	if failures < 6 {
		pause = min(firstRetry<<failures, maxRetry)
	}
	return pause - time.Duration(random*float64(pause)/5)
}

func defaultRandom() float64 { return rand.Float64() } //nolint:gosec // jitter is no secret

const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)
