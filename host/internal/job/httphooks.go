package job

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/joberror"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/telemetry"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// preReconcile sends the desired objects to the HTTP hook before the plugin applies them, and returns those of its
// answer; nil if they do not change. failed is the outcome of the job if the plugin cannot render the desired objects.
func (p callPhase) preReconcile(
	ctx context.Context, c plugin.Call,
) (children []sdk.Child, failed *plugin.Outcome, err error) {
	found, err := p.httpHook(v1alpha1.HookPreReconcile)
	if err != nil || found == nil {
		return nil, nil, err
	}
	if p.tenure.IsPending() { // the hook was not there before
		if err := p.tenure.Write(ctx, contract.Progress); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := untilDeadline(ctx, c.Deadline)
	defer cancel()
	c.DeployItem = move.View(p.tenure.View(), p.moving)
	rendered := &plugin.Rendered{}
	if p.Plugin.Info().Capabilities.Render {
		if rendered, err = telemetry.Render(ctx, p.Plugin, c); err != nil {
			return nil, nil, joberror.FromCall(err)
		}
	}
	if len(rendered.Errors) > 0 {
		return nil, &plugin.Outcome{Errors: rendered.Errors}, nil
	}
	var answer *httphook.Answer
	err = telemetry.CallHTTPHook(ctx, found, v1alpha1.HookPreReconcile, func(ctx context.Context) (err error) {
		answer, err = found.PreReconcile(ctx, p.Plugin.Name(), c.DeployItem, rendered.Children)
		return err
	})
	if errors.Is(err, httphook.ErrChildren) {
		return nil, nil, joberror.Protocol(err)
	}
	p.called.conditions = found.Conditions()
	if err != nil {
		return nil, nil, p.handleHookError(ctx, v1alpha1.HookPreReconcile, err)
	}
	err = p.tenure.Write(ctx, func(item *v1alpha1.DeployItem) {
		contract.HookAnswered(item, p.Clock.Now())
		contract.Report(item, p.called.conditions, answer.Conditions, p.Clock.Now())
	})
	return answer.Children, nil, err
}

// finalize calls the HTTP hook before a deletion, until the hook has agreed.
func (p callPhase) finalize(ctx context.Context, deadline time.Time) error {
	found, err := p.httpHook(v1alpha1.HookFinalize)
	if err != nil || found == nil {
		return err
	}
	item := p.tenure.View()
	if contract.IsFinalized(item, found.Registration()) {
		return nil
	}
	ctx, cancel := untilDeadline(ctx, deadline)
	defer cancel()
	err = telemetry.CallHTTPHook(ctx, found, v1alpha1.HookFinalize, func(ctx context.Context) error {
		return found.Finalize(ctx, p.Plugin.Name(), item)
	})
	if err != nil {
		if err := p.handleHookError(ctx, v1alpha1.HookFinalize, err); err != nil {
			return err
		}
	}
	return p.tenure.Write(ctx, func(item *v1alpha1.DeployItem) {
		contract.NoteFinalized(item, found.Registration(), p.Clock.Now())
	})
}

// handleHookError handles an error of a hook. It returns nil if the hook wants the job to go on all the same.
func (p callPhase) handleHookError(ctx context.Context, phase v1alpha1.HookCapability, err error) error {
	var e *httphook.Error
	if !errors.As(err, &e) {
		return err
	}
	problem := contract.Error{
		Operation: operationOf(phase), Reason: string(e.Reason), Message: text.Cut(e.Error(), contract.MaxMessage),
	}
	if e.Permanent {
		problem.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}
		problem.Message += ". When that is fixed, or the registration is gone, a new job tries it again"
	}
	note := func(item *v1alpha1.DeployItem) {
		contract.HookFailed(item, problem, p.Clock.Now())
		contract.Report(item, p.called.conditions, nil, p.Clock.Now())
	}
	if !e.Continue {
		p.called.note = note
		return problem
	}
	p.log.Warn("HTTP hook failed and wants the job to go on", "registration", e.Registration, "error", problem.Message)
	p.event(corev1.EventTypeWarning, problem.Reason, problem.Message+"; the job goes on, as the hook says")
	return p.tenure.Write(ctx, note)
}

// finalizeOnly calls the HTTP hook before a deletion without the plugin: the hook may have objects of its own to
// remove.
func (p callPhase) finalizeOnly(ctx context.Context) error {
	if !p.hasFinalizer() {
		return nil
	}
	deadline, err := contract.Deadline(p.tenure.View())
	if err != nil {
		deadline = time.Time{} // a malformed timeout is no reason to keep the item
	}
	return p.watched(ctx, func(ctx context.Context, _ *observer) error { return p.finalize(ctx, deadline) })
}

// untilDeadline is context.WithDeadline; the zero time is no deadline.
func untilDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}
