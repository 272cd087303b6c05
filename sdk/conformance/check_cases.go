package conformance

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/exchange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/schema"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/strange"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/trial"
	"github.com/pergola-deploy/pergola/sdk/conformance/internal/watchdog"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// checkSchemas checks the schemas, and the configurations by them.
func (e *examination) checkSchemas(context.Context) {
	configs := map[string][][]byte{}
	for _, c := range e.cases {
		itemType := string(c.Call.DeployItem.Spec.Type)
		configs[itemType] = append(configs[itemType], c.Call.DeployItem.Spec.Config.Raw)
	}
	for _, flaw := range schema.Flaws(e.info(), e.options.Configuration, configs) {
		e.breaks(RuleSchemas, "%s", flaw)
	}
}

// checkCases deploys the item of each case and deletes it.
func (e *examination) checkCases(ctx context.Context) {
	for _, c := range e.cases {
		config := c.Call.DeployItem.Spec.Config.Raw
		withUnknown, _ := strange.WithField(config) // it was checked that this can be done
		t := &trial.Trial{
			Plugin: &caller{e, &c}, Name: c.Name, UID: c.Call.DeployItem.UID,
			Can:    hostside.ReadCapabilities(e.can()),
			Config: config, WithUnknown: withUnknown, UnknownField: strange.Field,
			Timeout: c.Timeout, Moment: e.limits.Pause, MaxPoll: maxPoll,
			Checked: func(rule trial.Rule) { e.findings.Pass(Rule(rule)) },
			Broken:  func(rule trial.Rule, message string) { e.breaks(Rule(rule), "%s", message) },
		}
		if c.Call.Target != nil {
			t.BaitTargets = watchdog.BaitTargets()
		}
		t.Run(ctx)
	}
	for _, rule := range rulesOfCases {
		e.findings.Skip(rule, "no case came so far")
	}
}

// rulesOfCases are those that need a case.
var rulesOfCases = []Rule{
	RuleRender, RuleDiff, RuleSaveRefused, RuleReconcile, RuleCheckHealth, RuleForce, RuleDelete, RuleAbort,
}

// caller makes the calls of a trial.
type caller struct {
	e *examination
	c *Case
}

// Call implements trial.Plugin.
func (t *caller) Call(ctx context.Context, in trial.Call) trial.End {
	service := t.e.plugin.service
	open := map[trial.Method]exchange.Opener{
		trial.MethodReconcile: service.Reconcile, trial.MethodForceReconcile: service.ForceReconcile,
		trial.MethodAbort: service.Abort, trial.MethodDelete: service.Delete, trial.MethodCheckHealth: service.CheckHealth,
	}[in.Method]
	result := t.e.call(ctx, fmt.Sprintf("case %q: %s", t.c.Name, in.Name), open, t.callFor(in))
	end := trial.End{
		Succeeded: result.Succeeded != nil, InProgress: result.InProgress, Err: result.Err,
		Status: result.ProviderStatus, Text: result.String(),
		Saved: string(result.ProviderStatus) != string(in.Status) ||
			slices.ContainsFunc(result.Messages, func(m Message) bool { return m.ProviderStatus != nil }),
	}
	if result.Failed != nil {
		end.Failed, end.RetryAfter = result.Failed.Error(), hostside.RetryAfter(result.Failed.Errors)
		end.Final = slices.ContainsFunc(result.Failed.Codes(), v1alpha1.ErrorCode.EndsJob)
	}
	return end
}

// callFor returns a call for the item of the case.
func (t *caller) callFor(in trial.Call) Call {
	call := t.c.Call.with(in.Status)
	item := call.DeployItem
	if in.Config != nil {
		item.Spec.Config = &runtime.RawExtension{Raw: in.Config}
	}
	if in.OtherItem {
		item.Name, item.UID = item.Name+"-other", types.UID("00000000-0000-0000-0003-000000000000")
	}
	if in.Target != nil {
		target := *call.Target
		target.Content = in.Target
		call.Target = &target
	}
	if in.Job > 0 {
		call.JobID = fmt.Sprintf("%s-%d", item.Status.JobID, in.Job)
		item.Status.JobID = call.JobID
	}
	if in.Method == trial.MethodDelete {
		item.DeletionTimestamp = new(metav1.Now())
	}
	if call.Forced = in.Forced; in.Children != nil {
		call.Children = in.Children
	}
	if in.Save != nil {
		call.OnSave = func(json.RawMessage) error { return in.Save() }
	}
	if in.Heard != nil {
		call.OnMessage = func(Message) { in.Heard() }
	}
	if in.Method == trial.MethodReconcile || in.Method == trial.MethodForceReconcile {
		call = t.e.plugin.unpicked(call)
	}
	return call
}

// Validate implements trial.Plugin.
func (t *caller) Validate(ctx context.Context, config json.RawMessage) ([]sdk.Problem, error) {
	return t.e.plugin.Validate(ctx, t.e.asHost(t.callFor(trial.Call{Config: config})))
}

// Render implements trial.Plugin.
func (t *caller) Render(ctx context.Context, status json.RawMessage) ([]sdk.Child, error) {
	return t.e.plugin.Render(ctx, t.e.asHost(t.c.Call.with(status)))
}

// Diff implements trial.Plugin.
func (t *caller) Diff(ctx context.Context, status json.RawMessage) ([]sdk.Change, error) {
	return t.e.plugin.Diff(ctx, t.e.asHost(t.c.Call.with(status)))
}

// Holdings implements trial.Plugin.
func (t *caller) Holdings(ctx context.Context) ([]sdk.Holding, error) {
	return t.e.plugin.Holdings(ctx, t.c.Call.HostCluster)
}
