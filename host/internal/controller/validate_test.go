package controller

import (
	"context"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hostside"
)

// newValidated returns a bench whose plugin passes "validate" and "call <operation>", and answers Validate as found and
// err are at that time.
func newValidated(t *testing.T, answer answer, modify ...func(*v1alpha1.DeployItem)) (
	b *bench, found *plugin.Validation, err *error,
) {
	t.Helper()
	found, err = &plugin.Validation{}, new(error)
	b = newBench(t, func(ctx context.Context, op plugin.Operation, o plugin.Observer) (*plugin.Outcome, error) {
		b.pass("call " + string(op))
		return answer(ctx, op, o)
	}, modify...)
	b.plugin.Capabilities.Validate = true
	b.plugin.OnValidate = func(context.Context, plugin.Call) (*plugin.Validation, error) {
		b.pass("validate")
		return found, *err
	}
	return b, found, err
}

// threeProblems are those of a plugin without a reason of its own.
func threeProblems() *plugin.Validation {
	return hostside.ReadValidation(&deployerv1.ValidateResponse{Problems: []*deployerv1.Problem{
		{Field: "manifests[0].policy", Message: "expected keep or delete"},
		{Field: "name", Message: "expected a name, but it is empty"},
		{Message: `unknown field "nam"`},
	}})
}

// TestProblemsEndTheJob: a job with problems fails before the plugin is called for it.
func TestProblemsEndTheJob(t *testing.T) {
	t.Parallel()
	code := v1alpha1.ErrorConfigurationProblem
	for name, tc := range map[string]struct {
		found *plugin.Validation
		err   error
		want  v1alpha1.DeployItemPhase
		says  string // reason and message
		// passed in one reconcile.
		passed []string
	}{
		"valid": {&plugin.Validation{}, nil, v1alpha1.DeployItemPhaseSucceeded, "", []string{"validate", "call Reconcile"}},
		// Rule (deploy-items.md#errors): All problems of `spec.config` end a job at once, before it changes anything.
		"three problems": {
			threeProblems(), nil, v1alpha1.DeployItemPhaseFailed,
			"ValidateProviderConfiguration: spec.config: manifests[0].policy: expected keep or delete; " +
				`name: expected a name, but it is empty; unknown field "nam"`,
			[]string{"validate"},
		},
		"an error of Reconcile": {
			&plugin.Validation{Errors: []plugin.Error{
				{Reason: "Own", Message: "spec.config: a: wrong", Codes: []v1alpha1.ErrorCode{code}},
			}}, nil, v1alpha1.DeployItemPhaseFailed, "Own: spec.config: a: wrong", []string{"validate"},
		},
		"the check was impossible": {
			&plugin.Validation{Errors: []plugin.Error{{Reason: sdk.ReasonError, Message: "no answer"}}}, nil,
			v1alpha1.DeployItemPhaseProgressing, "DeployerError: no answer", []string{"validate"},
		},
		"the plugin does not run": {
			nil, plugin.ErrNotRunning, v1alpha1.DeployItemPhaseProgressing, "", []string{"validate"},
		},
		"the plugin crashes": {
			nil, plugin.ErrCrashed, v1alpha1.DeployItemPhaseProgressing, "PluginCrashed: ", []string{"validate"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b, found, err := newValidated(t, done)
			if *err = tc.err; tc.found != nil {
				*found = *tc.found
			}
			b.setJob()
			b.reconcile(t.Context())
			item, says := b.expectPhase(tc.want), ""
			if last := item.Status.LastError; last != nil {
				says = last.Reason + ": " + last.Message
				if final := len(last.Codes) == 1 && last.Codes[0] == code; final != tc.want.IsFinal() {
					t.Errorf("expected the code %s at the end alone, but found %v", code, last.Codes)
				}
			}
			if says != tc.says && (!strings.HasSuffix(tc.says, ": ") || !strings.HasPrefix(says, tc.says)) {
				t.Errorf("expected %q, but found %q", tc.says, says)
			}
			b.expectPassed(name, tc.passed...)
		})
	}
}

// TestProblemsAreOneWrite: the failure of a job with problems needs no write more than that of a Reconcile.
func TestProblemsAreOneWrite(t *testing.T) {
	t.Parallel()
	b, found, _ := newValidated(t, done, withFinalizer)
	b.plugin.Capabilities.LatePickUp = true
	*found = *threeProblems()
	b.setJob()
	if b.reconcile(t.Context()); b.n != 1 {
		t.Errorf("expected one write of the pick-up and the failure, but found %d", b.n)
	}
	b.expectPhase(v1alpha1.DeployItemPhaseFailed)
}

// TestValidateOncePerJob: the first call of a job that deploys is validated, and no other.
// Rule (plugin-authors.md#validation): `Validate` is called before the first `Reconcile` or `ForceReconcile` of a job.
// Rule (plugin-authors.md#validation): `Validate` is not called for deletions and aborts.
func TestValidateOncePerJob(t *testing.T) {
	t.Parallel()
	retried := false
	answers := func(_ context.Context, op plugin.Operation, _ plugin.Observer) (*plugin.Outcome, error) {
		if retried = !retried; retried {
			return fails("later")
		}
		return waits("something")
	}
	b, _, _ := newValidated(t, answers, withoutTimeout)
	b.plugin.Capabilities.Abort, b.plugin.Capabilities.ForceReconcile = true, true
	again := func() { b.clock.Step(b.reconcile(t.Context())) }

	b.setJob()
	again()
	again()
	again()
	b.expectPassed("a retry and a wait", "validate", "call Reconcile", "call Reconcile", "call Reconcile")
	b.patch(b.item, `{"spec":{"config":{"apiVersion":"x/v1","kind":"X"}}}`)
	again()
	b.expectPassed("another configuration in the job", "validate", "call Reconcile")
	b.set(func(p *parts) { p.restart() })
	again()
	b.expectPassed("a new process does not know", "validate", "call Reconcile")
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationForceReconcile)
	again()
	b.expectPassed("the job is forced", "call ForceReconcile")
	b.setJob()
	again()
	b.expectPassed("another job of the same configuration", "validate", "call Reconcile")
	b.set(func(p *parts) { p.restart() })
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationForceReconcile)
	again()
	b.expectPassed("a forced job that is not known to be valid", "validate", "call ForceReconcile")
	b.annotate(b.item, v1alpha1.OperationAnnotation, v1alpha1.OperationAbort)
	again()
	b.expectPassed("an abort", "call Abort")
	b.remove(b.item)
	b.setJob()
	again()
	b.expectPassed("a deletion", "call Delete")
}

// TestNoValidateAfterSuccess: what has been deployed is valid, until the spec changes.
func TestNoValidateAfterSuccess(t *testing.T) {
	t.Parallel()
	b, _, _ := newValidated(t, done)
	b.setJob()
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("the first job", "validate", "call Reconcile")
	b.set(func(p *parts) { p.restart() })
	b.setJob()
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("a job without a change", "call Reconcile")
	b.patch(b.item, `{"spec":{"config":{"apiVersion":"x/v1","kind":"X"}}}`)
	b.setJob()
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("a changed item", "validate", "call Reconcile")
}

// TestNoValidate: without the capability the plugin is not asked.
func TestNoValidate(t *testing.T) {
	t.Parallel()
	b, _, _ := newValidated(t, done)
	b.plugin.Capabilities.Validate = false
	b.setJob()
	b.driveTo(v1alpha1.DeployItemPhaseSucceeded)
	b.expectPassed("a plugin without Validate", "call Reconcile")
}
