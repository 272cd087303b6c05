package trial

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// The jobs of the item. A host gives each a name of its own.
const (
	firstJob = iota
	forcedJob
	deletion
	nextJob
	jobAfterAbort
	lastDeletion
)

func (t *Trial) refuseUnknownField(ctx context.Context) {
	const name = "Reconcile with an unknown field"
	end := t.once(ctx, Call{Method: MethodReconcile, Name: name, Config: t.WithUnknown})
	code := string(v1alpha1.ErrorConfigurationProblem)
	if end.Failed == "" {
		t.breaks(ConfigStrict, name, "expected a failure, but it %s", end.Text)
	} else if !strings.Contains(end.Failed, code) || !strings.Contains(end.Failed, t.UnknownField) {
		t.breaks(ConfigStrict, name, "expected the code %s and a message with %s, but it %s", code, t.UnknownField,
			end.Text)
	}
}

// refuseTargets calls Reconcile for another item, with unusable Targets. Any end without a quote of them is right. A
// deployer without a need for its Target may have deployed the item.
func (t *Trial) refuseTargets(ctx context.Context) {
	for name, content := range t.BaitTargets {
		call := Call{Method: MethodReconcile, Name: "Reconcile with " + name, OtherItem: true, Target: content}
		if end := t.once(ctx, call); end.Failed == "" || end.Saved {
			call.Method, call.Name, call.Status = MethodDelete, "Delete with "+name, end.Status
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), t.Timeout)
			t.untilDone(ctx, call)
			cancel()
		}
	}
}

// errNotSaved is the answer to a provider status.
var errNotSaved = errors.New("the provider status could not be saved, because the rules are being checked")

// refuseSaves calls Reconcile until a provider status was refused, or the job is done.
func (t *Trial) refuseSaves(ctx context.Context) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, t.Timeout)
	defer cancel()
	const name = "Reconcile, while nothing can be saved"
	t.Checked(SaveRefused)
	refused := false
	call := Call{Method: MethodReconcile, Name: name, Save: func() error {
		refused = true
		return errNotSaved
	}}
	for {
		end := t.Plugin.Call(ctx, call)
		if refused && end.Succeeded {
			t.breaks(SaveRefused, name, "it %s, although its provider status was not saved", end.Text)
		}
		if refused || end.InProgress == nil || ctx.Err() != nil {
			return end.Status
		}
		call.Status = end.Status
		t.pause(ctx, end)
	}
}

// interrupt cancels a call after a message, or after a moment.
func (t *Trial) interrupt(ctx context.Context, status json.RawMessage) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, t.Moment)
	defer cancel()
	return t.Plugin.Call(ctx, Call{
		Method: MethodReconcile, Name: "Reconcile, cut short", Status: status, Heard: cancel,
	}).Status
}

// deploy carries out the job, and further ones for the deployed item.
func (t *Trial) deploy(ctx context.Context, before view, status json.RawMessage) (last json.RawMessage, ok bool) {
	end := t.job(ctx, Reconcile, Call{Method: MethodReconcile, Name: "Reconcile", Status: status})
	if !end.Succeeded {
		return end.Status, false
	}
	t.inspect(ctx, before, end.Status)
	end = t.job(ctx, Reconcile, Call{Method: MethodReconcile, Name: "Reconcile after success", Status: end.Status})
	if end.Succeeded && t.Can.Render {
		if children, err := t.render(ctx, end.Status); err == nil {
			// This is the call after an HTTP hook without changes.
			end = t.job(ctx, Render, Call{
				Method: MethodReconcile, Name: "Reconcile with the desired objects of Render", Status: end.Status,
				Children: children,
			})
		}
	}
	forced := Call{
		Method: MethodReconcile, Name: "Reconcile by force", Status: end.Status, Job: forcedJob, Forced: true,
	}
	if t.Can.ForceReconcile {
		forced.Method, forced.Name = MethodForceReconcile, "ForceReconcile, and then Reconcile"
	}
	return t.job(ctx, Force, forced).Status, true
}

// delete deletes the item, and deletes it again as after a crash.
func (t *Trial) delete(ctx context.Context, status json.RawMessage) (deleted bool) {
	end := t.job(ctx, Delete, Call{Method: MethodDelete, Name: "Delete", Status: status, Job: deletion})
	if !end.Succeeded || ctx.Err() != nil {
		return false
	}
	t.job(ctx, Delete, Call{Method: MethodDelete, Name: "Delete after Delete", Status: end.Status, Job: deletion})
	t.job(ctx, Delete, Call{
		Method: MethodDelete, Name: "Delete after Delete, with the provider status of before", Status: status, Job: deletion,
	})
	return true
}

// again deploys the deleted item once more, with an abort in between, and deletes it.
func (t *Trial) again(ctx context.Context) {
	rule, name, job := Delete, "Reconcile after Delete", nextJob
	end := t.once(ctx, Call{Method: MethodReconcile, Name: name, Job: job})
	if t.Can.Abort {
		end = t.job(ctx, Abort, Call{Method: MethodAbort, Name: "Abort", Status: end.Status, Job: job})
		rule, name, job = Abort, "Reconcile after Abort", jobAfterAbort
	}
	end = t.job(ctx, rule, Call{Method: MethodReconcile, Name: name, Status: end.Status, Job: job})
	t.job(ctx, Delete, Call{Method: MethodDelete, Name: "Delete in the end", Status: end.Status, Job: lastDeletion})
}

// render returns the desired objects.
func (t *Trial) render(ctx context.Context, status json.RawMessage) ([]sdk.Child, error) {
	return ask(ctx, t, func(ctx context.Context) ([]sdk.Child, error) { return t.Plugin.Render(ctx, status) })
}
