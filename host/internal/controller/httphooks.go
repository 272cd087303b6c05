package controller

import (
	"context"
	"errors"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// HTTPHooks says which HTTP hook is called for deploy items; see httphook.Registrations.
type HTTPHooks interface {
	// For returns the hook of a type; nil if it has none. The error says why there is one that cannot be called.
	For(itemType v1alpha1.DeployItemType) (*httphook.Hook, error)
	// Synced is closed when the hooks are known. Nothing is carried out before.
	Synced() <-chan struct{}
}

// operationOf is the operation of errors that concern an HTTP hook.
func operationOf(phase v1alpha1.HookCapability) string {
	if phase == v1alpha1.HookFinalize {
		return "HookFinalize"
	}
	return "HookPreReconcile"
}

// reasonHookNotReady is given to the error about a hook that cannot be called.
const reasonHookNotReady = "HookNotReady"

// httpHook returns the HTTP hook of the item that is called in a phase; nil if it has none. What is registered and
// cannot be called is an error of the job: it must not be carried out as if there were no hook.
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
			Operation: operationOf(phase), Reason: reasonHookNotReady, Message: contract.Cut(err.Error(), maxMessage),
		}
	case found == nil || !found.Has(phase):
		return nil, nil //nolint:nilnil // it is not called
	default:
		return found, nil
	}
}

// withHTTPHook carries out an operation of the plugin, with what the item's HTTP hook has to do with it. An error
// that is a contract.Error has kept the plugin from being called.
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
	if c.DeployItem = j.snapshot(); c.DeployItem.Generation != generation { // the children are those of another spec
		return nil, errOutdated
	}
	return j.callPlugin(ctx, operation, c, o)
}

// preReconcile has the HTTP hook look at the desired objects before the plugin applies them. It returns those that it
// wants instead; nil if they stay as they are. failed is the outcome of the job if the plugin cannot tell the desired
// objects.
func (j *job) preReconcile(
	ctx context.Context, c plugin.Call,
) (children []sdk.Child, failed *plugin.Outcome, err error) {
	found, err := j.httpHook(v1alpha1.HookPreReconcile)
	if err != nil || found == nil {
		return nil, nil, err
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
		return nil, nil, j.unanswered(ctx, v1alpha1.HookPreReconcile, err)
	}
	err = j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.HookAnswered(item, j.r.clock.Now())
		contract.Report(item, j.conditions, answer.Conditions, j.r.clock.Now())
	})
	return answer.Children, nil, err
}

// finalize asks the HTTP hook before what the item has deployed is deleted. One that has agreed is not asked again.
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
		if err := j.unanswered(ctx, v1alpha1.HookFinalize, err); err != nil {
			return err
		}
	}
	return j.writeStatus(ctx, func(item *v1alpha1.DeployItem) {
		contract.NoteFinalized(item, found.Registration(), j.r.clock.Now())
	})
}

// unanswered deals with a hook that has not answered as it should. It returns nil if the job goes on all the same,
// because the hook says so, and else a contract.Error.
func (j *job) unanswered(ctx context.Context, phase v1alpha1.HookCapability, err error) error {
	var e *httphook.Error
	if !errors.As(err, &e) {
		return err
	}
	problem := contract.Error{
		Operation: operationOf(phase), Reason: string(e.Reason), Message: contract.Cut(e.Error(), maxMessage),
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
	j.r.event(j.snapshot(), corev1.EventTypeWarning, problem.Reason,
		problem.Message+"; the job goes on, as the hook says")
	return j.writeStatus(ctx, note)
}

// snapshot returns the item as it is, while somebody else may be at it.
func (j *job) snapshot() *v1alpha1.DeployItem {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.item.DeepCopy()
}

// finalizeOnly asks the HTTP hook before a deletion that leaves behind what the item has deployed: what the hook has
// made elsewhere is its own matter.
func (j *job) finalizeOnly(ctx context.Context) error {
	if !j.wasDeployed() {
		return nil
	}
	deadline, err := contract.Deadline(j.item)
	if err != nil {
		deadline = time.Time{} // what is wrong with the timeout is no reason to keep the item
	}
	return j.attended(ctx, func(ctx context.Context, _ *observer) error { return j.finalize(ctx, deadline) })
}

// untilDeadline ends a context at the deadline of a call; never for the zero one.
func untilDeadline(ctx context.Context, deadline time.Time) (context.Context, context.CancelFunc) {
	if deadline.IsZero() {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}
