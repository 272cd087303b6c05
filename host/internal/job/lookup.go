package job

import (
	"errors"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/httphook"
	"github.com/pergola-deploy/pergola/host/internal/text"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// operationOf is the operation of errors of an HTTP hook.
func operationOf(phase v1alpha1.HookCapability) string {
	if phase == v1alpha1.HookFinalize {
		return "HookFinalize"
	}
	return "HookPreReconcile"
}

// reasonHookNotReady is the reason if a hook cannot be called.
const reasonHookNotReady = "HookNotReady"

// httpHook returns the item's HTTP hook for a phase; nil if there is none. If a registered hook cannot be called, the
// job must not go on: an error of the job.
func (w *work) httpHook(phase v1alpha1.HookCapability) (*httphook.Hook, error) {
	if w.HTTPHooks == nil {
		return nil, nil //nolint:nilnil // no hook is an ordinary case and no error
	}
	found, err := w.HTTPHooks.For(w.tenure.View().Spec.Type)
	var notReady interface {
		Concerns(phase v1alpha1.HookCapability) bool
	}
	switch {
	case errors.As(err, &notReady) && !notReady.Concerns(phase):
		return nil, nil //nolint:nilnil // it would not be called
	case err != nil:
		return nil, contract.Error{
			Operation: operationOf(phase), Reason: reasonHookNotReady,
			Message: text.Cut(err.Error(), contract.MaxMessage),
		}
	case found == nil || !found.Has(phase):
		return nil, nil //nolint:nilnil // it is not called
	default:
		return found, nil
	}
}

// callsFinalizeHook reports whether a deletion calls an HTTP hook, or cannot find out.
func (w *work) callsFinalizeHook() bool {
	if !w.hasFinalizer() {
		return false
	}
	found, err := w.httpHook(v1alpha1.HookFinalize)
	return err != nil || found != nil
}
