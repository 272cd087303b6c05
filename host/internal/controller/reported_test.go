package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func drifted(message string) []sdk.Condition {
	return []sdk.Condition{{Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: message}}
}

// What a plugin reports is written together with the outcome, whatever that is, and in the same write.
func TestConditionsWithEachOutcome(t *testing.T) {
	for _, tc := range []struct {
		name, reason string
		outcome      plugin.Outcome
		phase        v1alpha1.DeployItemPhase
	}{
		{"success", "the job is done", plugin.Outcome{Succeeded: &plugin.Succeeded{}}, v1alpha1.DeployItemPhaseSucceeded},
		{
			"final error", "the job has failed",
			plugin.Outcome{
				Errors: []plugin.Error{
					{Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Reason: "R", Message: "m"},
				},
			}, v1alpha1.DeployItemPhaseFailed,
		},
		{
			"error", "the job is tried again", plugin.Outcome{Errors: []plugin.Error{{Reason: "R", Message: "m"}}},
			v1alpha1.DeployItemPhaseProgressing,
		},
		{
			"waiting", "the job goes on", plugin.Outcome{InProgress: &plugin.InProgress{WaitingFor: "a pod"}},
			v1alpha1.DeployItemPhaseProgressing,
		},
	} {
		t.Run(tc.name, func(t *testing.T) {
			writesOfCall := 0
			var b *bench
			b = newBench(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) {
				writesOfCall = b.n
				outcome := tc.outcome
				outcome.Conditions, outcome.ProviderStatus = drifted("spec.replicas"), []byte(providerStatus)
				return &outcome, nil
			})
			b.setJob()
			b.reconcile(t.Context())
			item := b.read()
			c := conditionOf(item, "Drifted")
			if c == nil || c.Status != v1alpha1.ConditionTrue || c.Reason != "Repaired" || c.Message != "spec.replicas" ||
				c.LastTransitionTime.IsZero() {
				t.Errorf("%s: expected the condition, but found %+v", tc.reason, item.Status.Conditions)
			}
			if item.Status.Phase != tc.phase || rawStatus(item) != providerStatus ||
				conditionOf(item, contract.ConditionReady) == nil {
				t.Errorf("%s: expected phase %s with everything else, but found %s", tc.reason, tc.phase, describe(item))
			}
			if writes := b.n - writesOfCall; writes != 1 {
				t.Errorf("%s: expected one write, but found %d", tc.reason, writes)
			}
		})
	}
}

// A plugin gets other Targets of its item's namespace as it gets the item's own, and is refused what it would be
// refused there; see TestNamedIsLikeOwn of package target.
func TestPluginResolvesTargets(t *testing.T) {
	kubeconfig := func(user string) string {
		return `{"kubeconfig": {"apiVersion": "v1", "kind": "Config", "current-context": "c",
			"contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
			"clusters": [{"name": "c", "cluster": {"server": "https://example.org"}}], "users": [{"name": "u", "user": ` + user + `}]}}`
	}
	contents, errs := map[string]string{}, map[string]error{}
	b := newBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		for _, name := range []string{"good", "commands", "elsewhere"} {
			var resolved *v1alpha1.ResolvedTarget
			if resolved, errs[name] = o.ResolveTarget(ctx, name); resolved != nil {
				contents[name] = resolved.Content
			}
		}
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	})
	b.newClusterTarget(b.item.Namespace, "good", kubeconfig(`{"token": "t0ps3cret"}`))
	b.newClusterTarget(b.item.Namespace, "commands", kubeconfig(`{"exec": {"command": "t0ps3cret"}}`))
	b.newClusterTarget(b.newNamespace(), "elsewhere", kubeconfig(`{"token": "t0ps3cret"}`))
	b.setJob()
	b.drive()
	if errs["good"] != nil || len(contents) != 1 || !strings.Contains(contents["good"], "t0ps3cret") {
		t.Errorf("expected the content of one Target, but found %q (%v)", contents, errs)
	}
	for name, reason := range map[string]string{"commands": "TargetForbidden", "elsewhere": "NoTargetFound"} {
		var got plugin.Error
		if !errors.As(errs[name], &got) || got.Reason != reason || got.Operation != "ResolveOtherTarget" ||
			!slices.Equal(got.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}) ||
			strings.Contains(got.Message, "t0ps3cret") {
			t.Errorf("%s: found %v", name, errs[name])
		}
	}
}

// A plugin that says what the host says of a missing Target does not have the deletion begin anew: the item's own is
// there, so that it would do so at once, again and again.
func TestPluginsErrorIsNotTheHosts(t *testing.T) {
	b := newBench(t, always(&plugin.Outcome{Errors: []plugin.Error{{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry},
		Operation: contract.OperationResolve, Reason: contract.ReasonTargetNotFound, Message: "not there",
	}}}, nil), withoutTimeout)
	b.remove(b.item)
	b.setJob()
	item := b.drive()
	if item == nil || item.Status.Phase != v1alpha1.DeployItemPhaseDeleteFailed || len(b.calls) != 1 {
		t.Errorf("expected one call and a failure, but found %d, %s", len(b.calls), describe(item))
	}
}
