package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
)

func (e *examination) checkConfigStrict(ctx context.Context) {
	e.pass(RuleConfigStrict)
	for _, c := range e.cases {
		const name = "Reconcile with an unknown field"
		e.refuses(RuleConfigStrict, c.where(name), unknownField, e.misspelt(ctx, &c, name, false))
	}
}

// checkSeparateDocuments sees whether a mistake in a provider configuration is found that comes beside its item. From then on the
// documents are sent as the host sends them.
func (e *examination) checkSeparateDocuments(ctx context.Context) {
	e.pass(RuleSeparateDocuments)
	for _, c := range e.cases {
		const name = "Reconcile with a provider configuration beside the item"
		beside, within := e.misspelt(ctx, &c, name, true), e.misspelt(ctx, &c, name, false)
		if beside.String() != within.String() {
			e.breaks(RuleSeparateDocuments, "%s: expected the same as with one in the item (%s), but it %s", c.where(name), within, beside)
			return
		}
	}
	e.separate = true
}

// misspelt reconciles the item of a case with a field that there is not.
func (e *examination) misspelt(ctx context.Context, c *Case, name string, separate bool) *Result {
	ctx, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	call := c.Call.with(nil)
	document, err := withUnknownField(call.DeployItem.Spec.Config.Raw)
	if err != nil {
		return &Result{Err: err}
	}
	call.DeployItem.Spec.Config = &runtime.RawExtension{Raw: document}
	call.separate = separate
	return e.call(ctx, c.where(name), e.plugin.service.Reconcile, call)
}

func (e *examination) checkCases(ctx context.Context) {
	for _, c := range e.cases {
		(&trial{examination: e, c: c}).run(ctx)
	}
	e.skip(RuleSaveRefused, "no provider status was saved")
}

// trial deploys the item of one case and deletes it.
type trial struct {
	*examination

	c Case
}

func (t *trial) run(ctx context.Context) {
	status := t.refuseSaves(ctx)
	status = t.interrupt(ctx, status)
	t.pass(RuleReconcileSucceeds)
	result := t.job(ctx, "Reconcile", t.plugin.service.Reconcile, t.c.Call.with(status))
	if t.expectSuccess(RuleReconcileSucceeds, "Reconcile", result) {
		status, ok := t.again(ctx, result.ProviderStatus)
		if ok {
			t.diffDeployed(ctx, status)
			status = t.askedByOlderHost(ctx, status)
			status = t.takeBack(ctx, status)
		}
		t.delete(ctx, status)
	}
}

// errNotSaved is what a deployer hears that wants to save its provider status.
var errNotSaved = errors.New("the provider status could not be saved, because the rules are being checked")

// refuseSaves calls Reconcile until the deployer has heard that its provider status could not be saved, or the job is done. It
// returns the provider status that the item then has.
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
		result := t.call(ctx, t.c.where(name), t.plugin.service.Reconcile, call)
		if refused {
			t.pass(RuleSaveRefused)
		}
		if refused && result.Succeeded != nil {
			t.breaks(RuleSaveRefused, "%s: it %s, although it was told that its provider status was not saved", t.c.where(name), result)
		}
		return result
	}
	return UntilDone(ctx, operation, t.c.Call.with(nil)).ProviderStatus
}

// interrupt cancels a call once the deployer has said something, or after a moment, and returns the provider status that the
// item then has. A call that does not end shows where the next one hangs.
func (t *trial) interrupt(ctx context.Context, status json.RawMessage) json.RawMessage {
	ctx, cancel := context.WithTimeout(ctx, t.limits.interrupt)
	defer cancel()
	call := t.c.Call.with(status)
	call.OnMessage = func(Message) { cancel() }
	return t.call(ctx, t.c.where("Reconcile, cut short"), t.plugin.service.Reconcile, call).ProviderStatus
}

// again reconciles an item whose job is done, and says more on the way than a plugin has to know.
func (t *trial) again(ctx context.Context, status json.RawMessage) (last json.RawMessage, ok bool) {
	t.pass(RuleReconcileAgain)
	for _, repetition := range []struct {
		name  string
		rule  Rule
		noise []*deployerv1.HostMessage
	}{
		{name: "Reconcile after success", rule: RuleReconcileAgain},
		{name: "Reconcile with a message of an unknown kind", rule: RuleUnknownIgnored, noise: []*deployerv1.HostMessage{unknownMessage()}},
		{name: "Reconcile with answers to what was not asked", rule: RuleStrayAcknowledgement, noise: strayAcknowledgements()},
	} {
		call := t.c.Call.with(status)
		call.noise = repetition.noise
		result := t.job(ctx, repetition.name, t.plugin.service.Reconcile, call)
		if !t.expectSuccess(repetition.rule, repetition.name, result) {
			return status, false
		}
		status = result.ProviderStatus
	}
	return status, true
}

// askedByOlderHost reconciles a deployed item as a host that resolves neither Targets nor Secrets. A deployer that cannot do without may fail
// there. It returns the provider status that the item then has.
func (t *trial) askedByOlderHost(ctx context.Context, status json.RawMessage) json.RawMessage {
	t.pass(RuleResolveTarget)
	call := t.c.Call.with(status)
	call.fromThePast = true
	return t.job(ctx, "Reconcile for a host that resolves nothing", t.plugin.service.Reconcile, call).ProviderStatus
}

func (t *trial) delete(ctx context.Context, status json.RawMessage) {
	deletion := t.c.Call.with(status)
	now := metav1.Now()
	deletion.DeployItem.DeletionTimestamp = &now
	t.pass(RuleDeleteSucceeds)
	result := t.job(ctx, "Delete", t.plugin.service.Delete, deletion)
	if !t.expectSuccess(RuleDeleteSucceeds, "Delete", result) {
		return
	}
	t.pass(RuleDeleteAgain)
	result = t.job(ctx, "Delete after Delete", t.plugin.service.Delete, deletion.with(result.ProviderStatus))
	t.expectSuccess(RuleDeleteAgain, "Delete after Delete", result)
}

// job repeats an operation until it is done.
func (t *trial) job(ctx context.Context, name string, open opener, call Call) *Result {
	ctx, cancel := context.WithTimeout(ctx, t.c.Timeout)
	defer cancel()
	once := func(ctx context.Context, call Call) *Result { return t.call(ctx, t.c.where(name), open, call) }
	return UntilDone(ctx, once, call)
}

func (t *trial) expectSuccess(rule Rule, name string, result *Result) bool {
	if result.Succeeded == nil {
		t.breaks(rule, "%s: expected success within %s, but it %s", t.c.where(name), t.c.Timeout, result)
	}
	return result.Succeeded != nil
}

func (c *Case) where(operation string) string {
	return fmt.Sprintf("case %q: %s", c.Name, operation)
}
