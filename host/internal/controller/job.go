package controller

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// defaultPoll is how long a waiting job is left alone if its plugin names no time.
	defaultPoll = 5 * time.Second
	// minPoll keeps a plugin from being called in a loop.
	minPoll = 100 * time.Millisecond
	// pluginPoll is how long a job waits for a plugin that is not running, should nobody wake it earlier.
	pluginPoll = 30 * time.Second

	// maxMessage bounds the message of an error in the status.
	maxMessage = 16 << 10
	// maxEventReason and maxEventNote are the API server's limits for events.
	maxEventReason = 128
	maxEventNote   = 1024
)

// job is one step of an item's job: from the decision to what is remembered until the next step.
type job struct {
	*reconciler
	entry

	plugin   deployer
	decision contract.Decision
	log      *slog.Logger
	gone     bool // the item is, or will be without our doing
}

func (j *job) finished() bool {
	return j.item.Status.JobID == j.item.Status.JobIDFinished
}

// run takes the job one step on. What goes wrong with the job is written into the item's status; the error is that of a write
// or a read, or errOutdated.
func (j *job) run(ctx context.Context) error {
	switch j.decision.Action {
	case contract.Skip:
		return j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) { contract.FinishUnchanged(item, j.deployer(), j.clock.Now()) })
	case contract.TimedOut:
		return j.fail(ctx, contract.TimeoutError(j.waitingFor))
	case contract.PickUp: // 8
		if err := j.pickUp(ctx); err != nil {
			return err
		}
	case contract.Continue, contract.Nothing:
	}
	if j.decision.Deletion && !j.needsDelete() {
		return j.finishDeletion(ctx)
	}

	// 9: an item that cannot be deployed gets no finalizer, and can be deleted at once; but nothing is deployed before the
	// finalizer is there to remember it.
	call, err := j.prepare(ctx)
	if err != nil {
		return j.handleError(ctx, asError("Prepare", err))
	}
	if !j.decision.Deletion {
		if err := j.writer.addFinalizer(ctx, j.item); err != nil {
			return err
		}
	}

	// 11
	operation := plugin.Reconcile
	if j.decision.Deletion {
		operation = plugin.Delete
	}
	outcome, err := j.plugin.Call(ctx, operation, call, &observer{job: j})
	if err != nil {
		return j.handleCallError(ctx, err)
	}
	return j.handleOutcome(ctx, outcome)
}

// pickUp claims the job with one conditional write. It is also the fence: nobody calls a plugin before it has succeeded.
func (j *job) pickUp(ctx context.Context) error {
	err := j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) {
		contract.Begin(item, j.decision.Deletion, j.deployer(), j.clock.Now())
	})
	if err != nil {
		return err
	}
	j.retries, j.waitingFor = 0, ""
	j.log.Info("picked up job", "deletion", j.decision.Deletion)
	return nil
}

func (j *job) deployer() v1alpha1.DeployerInformation {
	info := j.plugin.Info()
	return v1alpha1.DeployerInformation{Identity: j.identity, Name: info.Name, Version: info.Version}
}

// needsDelete tells whether the deployer must be called for a deletion: not if the item never got a finalizer, and so never
// reached a deployer, nor if the user wants what was deployed to stay.
func (j *job) needsDelete() bool {
	return slices.Contains(j.item.Finalizers, v1alpha1.Finalizer) &&
		j.item.Annotations[v1alpha1.DeleteWithoutUninstallAnnotation] != "true"
}

// prepare resolves what the plugin needs to know. Errors are those of package target, contract.Error, or of the API server.
func (j *job) prepare(ctx context.Context) (plugin.Call, error) {
	deadline, err := contract.Deadline(j.item)
	if err != nil {
		return plugin.Call{}, err
	}
	lsContext, err := j.targets.Context(ctx, j.item)
	if err != nil {
		return plugin.Call{}, err
	}
	resolved, err := j.targets.Target(ctx, j.item)
	if err != nil {
		return plugin.Call{}, err
	}
	return plugin.Call{DeployItem: j.item, Target: resolved, Context: lsContext, Deadline: deadline}, nil
}

// handleCallError deals with a call that has no outcome.
func (j *job) handleCallError(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case errors.Is(err, errOutdated):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return j.fail(ctx, contract.TimeoutError(j.waitingFor))
	case errors.Is(err, plugin.ErrNotRunning), errors.Is(err, plugin.ErrCrashed):
		j.log.Warn("plugin did not finish the call; the job goes on when it runs again", "error", err.Error())
		j.due, j.waitsForPlugin = j.clock.Now().Add(j.pollInterval(pluginPoll)), true
		j.waitingFor = fmt.Sprintf("the plugin %q to run again", j.name)
		return j.wait(ctx, j.waitingFor)
	case errors.Is(err, plugin.ErrProtocol):
		return j.handleError(ctx, contract.Error{Operation: "CallPlugin", Reason: "PluginProtocolError", Message: err.Error()})
	default:
		return fmt.Errorf("call plugin: %w", err)
	}
}

// handleOutcome writes down what the plugin has reached. What cannot be written is the plugin's error: without it the job would
// be tried again for ever and nobody would know why.
func (j *job) handleOutcome(ctx context.Context, outcome *plugin.Outcome) error {
	if err := checkProviderStatus(outcome.ProviderStatus); outcome.ProviderStatus != nil && err != nil {
		return j.handleError(ctx, contract.Error{Operation: "CallPlugin", Reason: "PluginProtocolError", Message: err.Error()})
	}
	err := j.writeOutcome(ctx, outcome)
	if apierrors.IsInvalid(err) || apierrors.IsRequestEntityTooLargeError(err) {
		j.log.Warn("the API server refuses what the plugin has reached", "error", err.Error())
		return j.handleError(ctx, contract.Error{
			Operation: "WriteStatus", Reason: "StatusRefused",
			Message: fmt.Sprintf("the API server refuses the status that the plugin %q gives: %s", j.name, apierrors.ReasonForError(err)),
		})
	}
	return err
}

func (j *job) writeOutcome(ctx context.Context, outcome *plugin.Outcome) error {
	switch {
	case outcome.Succeeded != nil && j.decision.Deletion:
		return j.finishDeletion(ctx)
	case outcome.Succeeded != nil:
		return j.succeed(ctx, outcome)
	case outcome.InProgress != nil:
		j.retries, j.waitingFor = 0, outcome.InProgress.WaitingFor
		j.due = j.clock.Now().Add(j.pollInterval(outcome.InProgress.PollAfter))
		j.log.Debug("job waits", "for", j.waitingFor)
		return j.wait(ctx, j.waitingFor, withProviderStatus(outcome.ProviderStatus))
	default:
		if ctx.Err() != nil { // the plugin failed because it was asked to stop
			return ctx.Err()
		}
		return j.handleError(ctx, joinErrors(outcome.Errors), withProviderStatus(outcome.ProviderStatus))
	}
}

// pollInterval is when to call the plugin again; never later than the job's deadline, so that a timeout is noticed in time.
func (j *job) pollInterval(wish time.Duration) time.Duration {
	if wish <= 0 {
		wish = defaultPoll
	}
	wish = max(wish, minPoll)
	if deadline, err := contract.Deadline(j.item); err == nil && !deadline.IsZero() {
		wish = min(wish, max(deadline.Sub(j.clock.Now()), minPoll))
	}
	return wish
}

// change is a change of an item's status that goes into the same write as another.
type change func(*v1alpha1.DeployItem)

func withProviderStatus(document []byte) change {
	return func(item *v1alpha1.DeployItem) {
		if document != nil {
			item.Status.ProviderStatus = &runtime.RawExtension{Raw: document}
		}
	}
}

// wait writes that the job is under way and what it waits for, if that is not yet there to see.
func (j *job) wait(ctx context.Context, waitingFor string, changes ...change) error {
	return j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) {
		contract.Wait(item, waitingFor, j.clock.Now())
		for _, c := range changes {
			c(item)
		}
	})
}

// succeed ends a job that is done: first its exports, then phase and jobIDFinished in one write.
func (j *job) succeed(ctx context.Context, outcome *plugin.Outcome) error {
	ref, err := j.exports.write(ctx, j.item, outcome.Succeeded.Exports)
	if err != nil {
		return j.handleError(ctx, asError("WriteExports", err), withProviderStatus(outcome.ProviderStatus))
	}
	err = j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) {
		withProviderStatus(outcome.ProviderStatus)(item)
		if ref != nil {
			item.Status.ExportReference = ref
		}
		contract.Succeed(item, j.clock.Now())
	})
	if err != nil {
		return err
	}
	j.log.Info("job succeeded")
	return nil
}

// finishDeletion ends a job that deletes. Removing the finalizer ends it in one write, because the item is gone then. Only an
// item that somebody else still holds on to gets a final status.
func (j *job) finishDeletion(ctx context.Context) error {
	if err := j.writer.removeFinalizer(ctx, j.item); err != nil {
		return err
	}
	j.log.Info("deletion succeeded")
	if len(j.item.Finalizers) == 0 {
		j.gone = true
		return nil
	}
	return j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) { contract.Succeed(item, j.clock.Now()) })
}

// handleError ends the job if the error says so, and else notes it and tries again later.
func (j *job) handleError(ctx context.Context, e contract.Error, changes ...change) error {
	if e.Final() {
		return j.fail(ctx, e, changes...)
	}
	j.due = j.clock.Now().Add(j.pollInterval(retryPause(j.retries, j.random())))
	j.retries++
	j.waitingFor = e.Message
	j.log.Warn("job met an error; it is tried again", "reason", e.Reason, "error", e.Message, "at", j.due)
	repeated := j.item.Status.LastError != nil && j.item.Status.LastError.Message == e.Message
	err := j.wait(ctx, "another try, after the error in lastError", append(changes, func(item *v1alpha1.DeployItem) { contract.RecordError(item, e, j.clock.Now()) })...)
	if err == nil && !repeated {
		j.event(corev1.EventTypeWarning, e.Reason, e.Message)
	}
	return err
}

// fail gives the job up.
func (j *job) fail(ctx context.Context, e contract.Error, changes ...change) error {
	err := j.writer.status(ctx, j.item, func(item *v1alpha1.DeployItem) {
		for _, c := range changes {
			c(item)
		}
		contract.Fail(item, j.decision.Deletion, e, j.clock.Now())
	})
	if err != nil {
		return err
	}
	j.log.Warn("job failed", "reason", e.Reason, "error", e.Message)
	j.event(corev1.EventTypeWarning, e.Reason, e.Message)
	return nil
}

// event records an event of the item. The API server takes none with longer texts.
func (j *job) event(eventType, reason, message string) {
	j.recorder.Eventf(j.item, nil, eventType, cut(reason, maxEventReason), "ReconcileDeployItem", "%s", cut(message, maxEventNote))
}

// cut cuts a text that has more bytes than limit, between two characters, and shows that it did.
func cut(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	const mark = "…"
	end := limit - len(mark)
	for end > 0 && !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + mark
}

// asError describes an error that the host itself met. Package target knows what its errors mean; any other is the API
// server's and is retried.
func asError(operation string, err error) contract.Error {
	var contractErr contract.Error
	if errors.As(err, &contractErr) {
		return contractErr
	}
	e := contract.Error{Operation: operation, Reason: "HostError", Message: err.Error()}
	var targetErr *target.Error
	if errors.As(err, &targetErr) {
		e.Operation, e.Reason = "ResolveTarget", string(targetErr.Reason)
		e.Terminal = targetErr.Reason == target.ReasonTargetNotFound // as upstream: no code, and final
		if code := targetErr.Code(); code != "" {
			e.Codes = []v1alpha1.ErrorCode{code}
		}
	}
	return e
}

// joinErrors makes one error of those of a plugin: the status has room for one at a time, and for seven copies of it.
func joinErrors(errs []plugin.Error) contract.Error {
	joined := contract.Error{Operation: errs[0].Operation, Reason: errs[0].Reason}
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
	joined.Message = cut(strings.Join(messages, "\n"), maxMessage)
	return joined
}
