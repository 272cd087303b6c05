package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// onlyHooks are those of a plugin that brings nothing else.
func onlyHooks() hook.Hooks {
	returns := func(result *hook.Result, err error) hook.Func {
		return func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
			return result, err
		}
	}
	postpone := returns(&hook.Result{RequeueAfter: time.Minute}, nil)
	refuse := func(
		_ context.Context, item *v1alpha1.DeployItem, _ *v1alpha1.Target, hookType hook.Type,
	) (*hook.Result, error) {
		return nil, fmt.Errorf("check: %w", errors.Join(
			&sdk.Error{
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry}, Operation: "Check", Reason: "Refused",
				Err: fmt.Errorf("%s at %s", item.Name, hookType),
			},
			sdk.ConfigurationError("Wrong", "and more"),
		))
	}
	fall := func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
		panic("hook") //nolint:forbidigo // what is tested
	}
	return hook.Hooks{}.
		RegisterHook(postpone, hook.Start).
		RegisterHook(returns(nil, errors.New("not on a Friday")), hook.BeforeReconcile).
		RegisterHook(refuse, hook.BeforeDelete).
		RegisterHook(fall, hook.End).
		RegisterHook(postpone, hook.End)
}

// calmHooks are onlyHooks without the panic, which breaks a rule.
func calmHooks() hook.Hooks {
	hooks := onlyHooks()
	hooks[hook.End] = hooks[hook.End][1:]
	return hooks
}

func hookOptions() []sdk.Option {
	return []sdk.Option{sdk.Name("audit"), sdk.Version("1"), sdk.HookedTypes("example.org/test", "example.org/other")}
}

func TestHooksAlone(t *testing.T) {
	t.Parallel()
	plugin := sdktest.NewHooks(t, onlyHooks(), hookOptions()...)
	wantInfo := &sdktest.Info{
		Name: "audit", Version: "1", SDKVersion: sdk.Release,
		HookedTypes: []v1alpha1.DeployItemType{"example.org/test", "example.org/other"},
		Capabilities: sdktest.Capabilities{
			SeparateDocuments: true,
			HookTypes:         []string{"Start", "BeforeDelete", "BeforeReconcile", "End"},
		},
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{},
	}
	if diff := cmp.Diff(wantInfo, plugin.Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	postponed := sdktest.HookOutcome{Result: &hook.Result{RequeueAfter: time.Minute}}
	for hookType, want := range map[hook.Type][]sdktest.HookOutcome{
		hook.Start: {postponed},
		hook.BeforeReconcile: {{Err: &sdktest.Error{
			Operation: "BeforeReconcile", Reason: sdk.ReasonHookFailed, Message: "not on a Friday",
		}}},
		hook.BeforeDelete: {{Err: &sdktest.Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry, v1alpha1.ErrorConfigurationProblem},
			Operation: "Check", Reason: "Refused", Message: "check: item at BeforeDelete\nand more",
		}}},
		hook.End: {{Err: &sdktest.Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Operation: "End", Reason: sdk.ReasonPanic,
			Message: `plugin "audit" 1 panicked in its End hook; the stack is in the log of the host, ` +
				`in the record with its plugin and jobID: in Kubernetes, see kubectl logs of the host's Pod`,
		}}, postponed},
		hook.BeforeAbort: nil,
	} {
		call := emptyCall()
		if hookType == hook.Start {
			call.DeployItem = nil
		}
		got, err := plugin.RunHooks(t.Context(), hookType, call.DeployItem, nil)
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, outcomes (-want +got):\n%s", hookType, err, diff)
		}
	}
	for name, operation := range map[string]func(context.Context, sdktest.Call) *sdktest.Result{
		"Reconcile": plugin.Reconcile, "Delete": plugin.Delete,
		"Abort": plugin.Abort, "ForceReconcile": plugin.ForceReconcile,
	} {
		if result := operation(t.Context(), emptyCall()); grpcstatus.Code(result.Err) != codes.Unimplemented {
			t.Errorf("%s: expected Unimplemented, but found: %s", name, result)
		}
	}
	sdktest.Conform(t, sdktest.NewHooks(t, calmHooks(), hookOptions()...))
}

func TestHooksAloneAsAProgram(t *testing.T) {
	t.Parallel()
	sdktest.Conform(t, sdktest.Start(t, helper(t, "hooks").Path, helperEnv+"=hooks"))
}
