package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/itemclient"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// HTTPHooks says which HTTP hook is called for deploy items; see httphook.Registrations.
type HTTPHooks interface {
	// For returns the hook of a type; nil if it has none. The error says why its hook cannot be called.
	For(itemType v1alpha1.DeployItemType) (*httphook.Hook, error)
	// Synced is closed when the hooks are known. No item is reconciled before.
	Synced() <-chan struct{}
}

// operationOf is the operation of errors of an HTTP hook.
func operationOf(phase v1alpha1.HookCapability) string {
	if phase == v1alpha1.HookFinalize {
		return "HookFinalize"
	}
	return "HookPreReconcile"
}

// reasonHookNotReady is the reason of errors about a hook that cannot be called.
const reasonHookNotReady = "HookNotReady"

// httpHook returns the item's HTTP hook for a phase; nil if there is none. A registered hook that cannot be called is
// an error of the job, which must not go on as if there were no hook.
func (j *job) httpHook(phase v1alpha1.HookCapability) (*httphook.Hook, error) {
	if j.r.options.HTTPHooks == nil {
		return nil, nil //nolint:nilnil // no hook is an ordinary case and no error
	}
	found, err := j.r.options.HTTPHooks.For(j.snapshot().Spec.Type)
	var notReady interface {
		Concerns(phase v1alpha1.HookCapability) bool
	}
	switch {
	case errors.As(err, &notReady) && !notReady.Concerns(phase):
		return nil, nil //nolint:nilnil // it would not be called
	case err != nil:
		return nil, contract.Error{
			Operation: operationOf(phase), Reason: reasonHookNotReady, Message: text.Cut(err.Error(), maxMessage),
		}
	case found == nil || !found.Has(phase):
		return nil, nil //nolint:nilnil // it is not called
	default:
		return found, nil
	}
}

// withHTTPHook calls the item's HTTP hook for an operation, and then the plugin, unless the hook fails.
func (j *job) withHTTPHook(
	ctx context.Context, operation plugin.Operation, c plugin.Call, o plugin.Observer,
) (*plugin.Outcome, error) {
	generation := j.snapshot().Generation
	switch operation {
	case plugin.Delete:
		if err := j.finalize(ctx, c.Deadline); err != nil {
			return nil, err
		}
	case plugin.Reconcile, plugin.ForceReconcile:
		children, rendered, err := j.preReconcile(ctx, c)
		if err != nil || rendered != nil {
			return rendered, err
		}
		c.Children = children
	case plugin.Abort:
	}
	if c.DeployItem = j.snapshot(); c.DeployItem.Generation != generation { // the children are of another spec
		return nil, itemclient.ErrOutdated
	}
	c.PickUpPending = j.pickUpPending()
	return j.callPlugin(ctx, operation, c, o)
}

// preReconcile sends the desired objects to the HTTP hook before the plugin applies them, and returns those of its
// answer; nil if they do not change. failed is the outcome of the job if the plugin cannot render the desired objects.
func (j *job) preReconcile(
	ctx context.Context, c plugin.Call,
) (children []sdk.Child, failed *plugin.Outcome, err error) {
	found, err := j.httpHook(v1alpha1.HookPreReconcile)
	if err != nil || found == nil {
		return nil, nil, err
	}
	if j.pickUpPending() { // it was not there before
		if err := j.writeStatus(ctx, contract.Progress); err != nil {
			return nil, nil, err
		}
	}
	ctx, cancel := untilDeadline(ctx, c.Deadline)
	defer cancel()
	c.DeployItem = j.snapshot()
	rendered := &plugin.Rendered{}
	if j.r.plugin.Info().Capabilities.Render {
		if rendered, err = j.render(ctx, c); err != nil {
			return nil, nil, err
		}
	}
	if len(rendered.Errors) > 0 {
		return nil, &plugin.Outcome{Errors: rendered.Errors}, nil
	}
	hookCtx, end := beginHTTPHook(ctx, found, v1alpha1.HookPreReconcile)
	answer, err := found.PreReconcile(hookCtx, j.r.name, c.DeployItem, rendered.Children)
	end(err)
	if errors.Is(err, httphook.ErrChildren) {
		return nil, nil, protocolError(err)
	}
	j.conditions = found.Conditions()
	if err != nil {
		return nil, nil, j.handleHookError(ctx, v1alpha1.HookPreReconcile, err)
	}
	err = j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.HookAnswered(item, j.r.clock.Now())
		contract.Report(item, j.conditions, answer.Conditions, j.r.clock.Now())
	})
	return answer.Children, nil, err
}

// finalize calls the HTTP hook before what the item has deployed is deleted, until it has agreed.
func (j *job) finalize(ctx context.Context, deadline time.Time) error {
	found, err := j.httpHook(v1alpha1.HookFinalize)
	if err != nil || found == nil {
		return err
	}
	item := j.snapshot()
	if contract.IsFinalized(item, found.Registration()) {
		return nil
	}
	ctx, cancel := untilDeadline(ctx, deadline)
	defer cancel()
	hookCtx, end := beginHTTPHook(ctx, found, v1alpha1.HookFinalize)
	err = found.Finalize(hookCtx, j.r.name, item)
	end(err)
	if err != nil {
		if err := j.handleHookError(ctx, v1alpha1.HookFinalize, err); err != nil {
			return err
		}
	}
	return j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.NoteFinalized(item, found.Registration(), j.r.clock.Now())
	})
}

// handleHookError handles an error of a hook. It returns nil if the hook says that the job goes on all the same.
func (j *job) handleHookError(ctx context.Context, phase v1alpha1.HookCapability, err error) error {
	var e *httphook.Error
	if !errors.As(err, &e) {
		return err
	}
	problem := contract.Error{
		Operation: operationOf(phase), Reason: string(e.Reason), Message: text.Cut(e.Error(), maxMessage),
	}
	if e.Permanent {
		problem.Codes = []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}
		problem.Message += ". When that is fixed, or the registration is gone, a new job tries it again"
	}
	note := func(item *v1alpha1.DeployItem) {
		contract.HookFailed(item, problem, j.r.clock.Now())
		contract.Report(item, j.conditions, nil, j.r.clock.Now())
	}
	if !e.Continue {
		j.noteWith(note)
		return problem
	}
	j.log.Warn("HTTP hook failed and wants the job to go on", "registration", e.Registration, "error", problem.Message)
	j.r.recorder.Record(j.snapshot(), corev1.EventTypeWarning, problem.Reason,
		problem.Message+"; the job goes on, as the hook says")
	return j.writeStatus(ctx, note)
}

// snapshot returns a copy of the item, which another goroutine may be changing.
func (j *job) snapshot() *v1alpha1.DeployItem {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.item.DeepCopy()
}

// pickUpPending reports whether the job is not picked up yet.
func (j *job) pickUpPending() bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.stored != nil
}

// finalizeOnly calls the HTTP hook before a deletion that leaves behind what the item has deployed: the hook may have
// something of its own to remove.
func (j *job) finalizeOnly(ctx context.Context) error {
	if !j.hasFinalizer() {
		return nil
	}
	deadline, err := contract.Deadline(j.item)
	if err != nil {
		deadline = time.Time{} // a malformed timeout is no reason to keep the item
	}
	return j.watched(ctx, func(ctx context.Context, _ *observer) error { return j.finalize(ctx, deadline) })
}

// untilDeadline is context.WithDeadline; the zero time is no deadline.
func untilDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}
