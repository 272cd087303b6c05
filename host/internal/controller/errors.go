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
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// maxEventReason and maxEventNote are the API server's limits for events.
	maxEventReason = 128
	maxEventNote   = 1024
)

// asError describes an error that the host itself met. Package target knows what its errors mean; any other is the API
// server's and is retried. Of several the first says what comes of them, and all are in the message.
func asError(operation string, err error) contract.Error {
	var contractErr contract.Error
	if errors.As(err, &contractErr) {
		return contractErr
	}
	e := contract.Error{Operation: operation, Reason: "HostError", Message: err.Error()}
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		e.Operation, e.Reason = contract.OperationResolve, string(targetErr.Reason)
		e.Terminal = targetErr.Reason == target.ReasonTargetNotFound // as upstream: no code, and final
		if code := targetErr.Code(); code != "" {
			e.Codes = []v1alpha1.ErrorCode{code}
		}
	}
	return e
}

// advise adds to an error of a deletion that cannot be carried out what the user can do about it. Such a deletion
// ends, because nothing can come of trying it again; it begins anew when what is missing comes back.
func (j *job) advise(e contract.Error) contract.Error {
	missing := e.Operation == contract.OperationResolve &&
		(e.Reason == contract.ReasonTargetNotFound || e.Reason == contract.ReasonContextNotFound)
	if !j.decision.Deletion || !missing {
		return e
	}
	e.Terminal = true
	e.Message += "; without it nothing can be deleted. Create it again, and the deletion goes on by itself; or " +
		leaveBehind
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

// event records an event of an item. The API server takes none with longer texts.
func (r *reconciler) event(item *v1alpha1.DeployItem, eventType, reason, message string) {
	r.recorder.Eventf(item, nil, eventType, contract.Cut(reason, maxEventReason), "ReconcileDeployItem",
		"%s", contract.Cut(message, maxEventNote))
}

// callError is the error of a call that has no outcome. What the plugin was not called for, because the host cannot
// give it what was promised, is an error of the job, and so is what a plugin says that is against the protocol.
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

// joinErrors makes one error of those of a plugin: the status has room for one at a time, and for seven copies of it.
// contract.OperationResolve is the host's own: after such an error a job begins anew when the item's Target and Context
// are there. A plugin that names it means a Target that it has asked for.
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
		messages = append(messages, e.Message)
		for _, code := range e.Codes {
			if !slices.Contains(joined.Codes, code) {
				joined.Codes = append(joined.Codes, code)
			}
		}
	}
	joined.Message = contract.Cut(strings.Join(messages, "\n"), maxMessage)
	return joined
}

// level is how loud an error is logged.
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

// timeoutError is contract.TimeoutError. Without a Landscaper, a job that has waited for something that the item uses
// begins anew when that is there, see contract.FailedForMissingReference.
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

// defaultMaxCrashes is how often a plugin may die in the middle of the calls for a job if nobody says otherwise.
const defaultMaxCrashes = 3

// leaveBehind is what a user can do about a deletion that does not succeed.
const leaveBehind = "annotate the deploy item with " + v1alpha1.DeleteWithoutUninstallAnnotation +
	`: "true", and it goes without what it has deployed`

// countCrash counts that a plugin has died in the middle of the job's call, or of a hook for it, which e says then. The
// last of so many crashes ends the job, because it may be what kills the plugin, and with it the calls of others. The
// count is in the status: it is that of all replicas, and outlives them.
func (j *job) countCrash(ctx context.Context, e contract.Error) error {
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
	crash := crashError(where, j.decision.Deletion, crashes, j.r.options.MaxCrashes)
	if crash.Final() {
		return j.handleError(ctx, crash)
	}
	j.known.waitsFor = cmp.Or(e.Plugin, j.r.name)
	j.noteWith(func(item *v1alpha1.DeployItem) { contract.NoteCrashes(item, crashes, j.r.clock.Now()) })
	return j.retry(ctx, crash, j.pollInterval(pluginPoll))
}

// crashError says that a plugin has died in the middle of the calls for a job. It is final when that has happened
// limit times.
func crashError(e contract.Error, deletion bool, crashes, limit int) contract.Error {
	e.Reason = contract.ReasonPluginCrashed
	if crashes < limit {
		e.Message = fmt.Sprintf("%s (%d of %d); it is tried again when the plugin runs", e.Message, crashes, limit)
		return e
	}
	e.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}
	times := fmt.Sprintf("%d times", crashes)
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

// retryPause is the pause after so many failures in a row: it doubles from a second to a minute. random, from [0, 1),
// takes up to a fifth off, so that what fails together does not come back together.
func retryPause(failures int, random float64) time.Duration {
	pause := maxRetry
	if failures < 6 {
		pause = min(firstRetry<<failures, maxRetry)
	}
	return pause - time.Duration(random*float64(pause)/5)
}

// defaultRandom is used unless a test brings its own.
func defaultRandom() float64 { return rand.Float64() } //nolint:gosec // jitter is no secret

const (
	firstRetry = time.Second
	maxRetry   = time.Minute
)
