package controller

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// TestConditionsWithEachOutcome: all that comes with an outcome is written together with it, in the same write.
//
// Rule (plugin-authors.md#provider-status): A provider status in the result is saved with it, also beside an error.
// Rule (plugin-authors.md#exports-and-conditions): Conditions are set with the result, also beside an error.
func TestConditionsWithEachOutcome(t *testing.T) {
	for name, tc := range map[string]struct {
		outcome answer
		phase   v1alpha1.DeployItemPhase
	}{
		"success":     {done, v1alpha1.DeployItemPhaseSucceeded},
		"final error": {always(failsFor(v1alpha1.ErrorConfigurationProblem, "R")), v1alpha1.DeployItemPhaseFailed},
		"error":       {always(fails("R")), v1alpha1.DeployItemPhaseProgressing},
		"waiting":     {always(waits("a pod")), v1alpha1.DeployItemPhaseProgressing},
	} {
		t.Run(name, func(t *testing.T) {
			writesBefore := 0
			var b *bench
			b = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
				writesBefore = b.n
				outcome, err := tc.outcome(ctx, op, o)
				outcome.ProviderStatus, outcome.Conditions = []byte(providerStatus), []sdk.Condition{{
					Type: "Drifted", Status: v1alpha1.ConditionTrue, Reason: "Repaired", Message: "spec.replicas",
				}}
				return outcome, err
			})
			b.setJob()
			b.reconcile(t.Context())
			item := b.expectPhase(tc.phase)
			c := conditionOf(item, "Drifted")
			if c == nil || c.Status != v1alpha1.ConditionTrue || c.Reason != "Repaired" || c.Message != "spec.replicas" ||
				c.LastTransitionTime.IsZero() || conditionOf(item, contract.ConditionReady) == nil {
				t.Errorf("expected the condition beside the host's, but found %+v", item.Status.Conditions)
			}
			if writes := b.n - writesBefore; writes != 1 || rawStatus(item) != providerStatus {
				t.Errorf("expected all in one write, but found %d, %s", writes, rawStatus(item))
			}
		})
	}
}

// TestPluginResolvesTargets: a plugin gets other Targets of its item's namespace by the rules of package target, and
// the reason for which it does not get one.
func TestPluginResolvesTargets(t *testing.T) {
	resolved, errs := map[string]*v1alpha1.ResolvedTarget{}, map[string]error{}
	b := newBench(t, func(ctx context.Context, _ plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		for _, name := range []string{"good", "forbidden", "elsewhere"} {
			resolved[name], errs[name] = o.ResolveTarget(ctx, name)
		}
		return succeeded()
	})
	b.newTarget(b.item.Namespace, "good")
	b.newTarget(b.newNamespace(), "elsewhere")
	b.create(&v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "forbidden", Namespace: b.item.Namespace},
		Spec: v1alpha1.TargetSpec{Type: v1alpha1.KubernetesClusterTargetType, Configuration: raw(`{"kubeconfig":{
			"apiVersion":"v1","kind":"Config","current-context":"c",
			"contexts":[{"name":"c","context":{"cluster":"c","user":"u"}}],
			"clusters":[{"name":"c","cluster":{"server":"https://example.org"}}],
			"users":[{"name":"u","user":{"exec":{"command":"secret"}}}]}}`)},
	})
	b.setJob()
	b.drive()
	if errs["good"] != nil || !strings.Contains(resolved["good"].Content, "secret") {
		t.Errorf("expected the content of the Target, but found %v, %v", resolved["good"], errs["good"])
	}
	for name, reason := range map[string]string{"forbidden": "TargetForbidden", "elsewhere": "NoTargetFound"} {
		var got plugin.Error
		if !errors.As(errs[name], &got) || got.Reason != reason || got.Operation != "ResolveOtherTarget" ||
			!slices.Equal(got.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}) ||
			resolved[name] != nil || strings.Contains(got.Message, "secret") {
			t.Errorf("%s: found %v", name, errs[name])
		}
	}
}

// TestPluginsErrorIsNotTheHosts: a plugin that says what the host says of a missing Target does not have the deletion
// begin anew: the item's own is there, so that it would do so at once, again and again.
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
