package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
)

func (c *Case) where(operation string) string {
	return fmt.Sprintf("case %q: %s", c.Name, operation)
}

// checkRender asks for the desired objects of each case, before anything is deployed.
func (e *examination) checkRender(ctx context.Context) {
	for _, c := range e.cases {
		where := c.where("Render")
		first, err := e.render(ctx, &c)
		if err != nil {
			e.breaks(RuleRender, "%s: expected desired objects, but found: %v", where, err)
			continue
		}
		if second, err := e.render(ctx, &c); err != nil || !reflect.DeepEqual(first, second) {
			e.breaks(RuleRender,
				"%s: there were %d desired objects at first, and %d that are not the same afterwards (error %v)",
				where, len(first), len(second), err)
		}
	}
}

func (e *examination) render(ctx context.Context, c *Case) ([]sdk.Child, error) {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	return e.plugin.Render(ctx, e.asHost(c.Call.with(nil)))
}

// checkDiff asks for the changes of each case, before anything is deployed.
func (e *examination) checkDiff(ctx context.Context) {
	for _, c := range e.cases {
		first, second := e.diff(ctx, &c, "Diff", nil), e.diff(ctx, &c, "Diff", nil)
		if !reflect.DeepEqual(first, second) {
			e.breaks(RuleDiff, "%s: there were %d changes at first, and %d that are not the same afterwards",
				c.where("Diff"), len(first), len(second))
		}
	}
}

// diff asks for the changes of a job, and checks the answer.
func (e *examination) diff(ctx context.Context, c *Case, name string, saved json.RawMessage) []sdk.Change {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	changes, err := e.plugin.Diff(ctx, e.asHost(c.Call.with(saved)))
	if err != nil {
		e.breaks(RuleDiff, "%s: expected changes, but found: %v", c.where(name), err)
	}
	return changes
}

// checkCases deploys the item of each case and deletes it.
func (e *examination) checkCases(ctx context.Context) {
	for _, c := range e.cases {
		t := &trial{e: e, c: c}
		t.refuseUnknownField(ctx)
		status := t.refuseSaves(ctx)
		status = t.interrupt(ctx, status)
		status, ok := t.deploy(ctx, status)
		if ok {
			t.delete(ctx, status)
		}
	}
}

// trial deploys the item of one case and deletes it. Its methods return the provider status that the item then has.
type trial struct {
	e *examination
	c Case
}

// call makes one call for the item.
func (t *trial) call(ctx context.Context, name string, open exchange.Opener, call Call) *Result {
	return t.e.call(ctx, t.c.where(name), open, call)
}

// before returns a call of a new job with the item.
func (t *trial) before(status json.RawMessage) Call {
	return t.e.plugin.unpicked(t.c.Call.with(status))
}

func (t *trial) refuseUnknownField(ctx context.Context) {
	const name = "Reconcile with an unknown field"
	call := t.before(nil)
	document, _ := withUnknownField(call.DeployItem.Spec.Config.Raw) // it was checked that this can be done
	call.DeployItem.Spec.Config = &runtime.RawExtension{Raw: document}
	ctx, cancel := context.WithTimeout(ctx, t.c.Timeout)
	defer cancel()
	t.e.refuses(t.c.where(name), unknownField, t.call(ctx, name, t.e.plugin.service.Reconcile, call))
}

// errNotSaved is the answer to a provider status.
var errNotSaved = errors.New("the provider status could not be saved, because the rules are being checked")

// refuseSaves calls Reconcile until a provider status was refused, or the job is done.
func (t *trial) refuseSaves(ctx context.Context) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, t.c.Timeout)
	defer cancel()
	refused := false
	operation := func(ctx context.Context, call Call) *Result {
		if refused {
			return &Result{ProviderStatus: call.status()}
		}
		call.OnSave = func(json.RawMessage) error {
			refused = true
			return errNotSaved
		}
		const name = "Reconcile, while nothing can be saved"
		result := t.call(ctx, name, t.e.plugin.service.Reconcile, call)
		if refused && result.Succeeded != nil {
			t.e.breaks(RuleSaveRefused, "%s: it %s, although it was told that its provider status was not saved",
				t.c.where(name), result)
		}
		return result
	}
	return untilDone(ctx, operation, operation, t.before(nil)).ProviderStatus
}

// interrupt cancels a call after a message, or after a moment.
func (t *trial) interrupt(ctx context.Context, status json.RawMessage) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, t.e.limits.pause)
	defer cancel()
	call := t.before(status)
	call.OnMessage = func(Message) { cancel() }
	return t.call(ctx, "Reconcile, cut short", t.e.plugin.service.Reconcile, call).ProviderStatus
}

// deploy carries out the job, and further ones for the deployed item.
func (t *trial) deploy(ctx context.Context, status json.RawMessage) (last json.RawMessage, ok bool) {
	service := t.e.plugin.service
	result := t.job(ctx, RuleReconcile, "Reconcile", service.Reconcile, t.before(status))
	if result.Succeeded == nil {
		return nil, false
	}
	if t.e.can().GetDiff() {
		t.e.diff(ctx, &t.c, "Diff after success", result.ProviderStatus)
	}
	result = t.job(ctx, RuleReconcile, "Reconcile after success", service.Reconcile, t.before(result.ProviderStatus))
	if result.Succeeded != nil && t.e.can().GetRender() {
		if children, err := t.e.render(ctx, &t.c); err == nil {
			// This is the call after an HTTP hook without changes.
			call := t.before(result.ProviderStatus)
			call.Children = children
			result = t.job(ctx, RuleRender, "Reconcile with the desired objects of Render", service.Reconcile, call)
		}
	}
	return result.ProviderStatus, true
}

func (t *trial) delete(ctx context.Context, status json.RawMessage) {
	deletion := t.c.Call.with(status)
	deletion.DeployItem.DeletionTimestamp = new(metav1.Now())
	result := t.job(ctx, RuleDelete, "Delete", t.e.plugin.service.Delete, deletion)
	if result.Succeeded != nil {
		t.job(ctx, RuleDelete, "Delete after Delete", t.e.plugin.service.Delete, deletion.with(result.ProviderStatus))
	}
}

// job repeats an operation until it is done, and checks that it succeeds.
func (t *trial) job(ctx context.Context, rule Rule, name string, open exchange.Opener, call Call) *Result {
	ctx, cancel := context.WithTimeout(ctx, t.c.Timeout)
	defer cancel()
	once := func(ctx context.Context, call Call) *Result { return t.call(ctx, name, open, call) }
	result := untilDone(ctx, once, once, call)
	if result.Succeeded == nil {
		t.e.breaks(rule, "%s: expected success within %s, but it %s", t.c.where(name), t.c.Timeout, result)
	}
	return result
}
