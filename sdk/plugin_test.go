package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// fake is a deployer made of functions; nil ones succeed.
type fake struct {
	reconcile func(ctx context.Context, req *sdk.Request) (*sdk.Response, error)
}

func (f fake) Reconcile(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
	if f.reconcile == nil {
		return nil, nil
	}
	return f.reconcile(ctx, req)
}

func (fake) Delete(context.Context, *sdk.Request) (*sdk.Response, error) { return nil, nil }

func options() []sdk.Option {
	return []sdk.Option{sdk.Name("test"), sdk.Version("1"), sdk.Types("example.org/test")}
}

type status struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Data       string `json:"data,omitempty"`
}

// document is a provider configuration or status with a payload.
func document(data string) status {
	return status{APIVersion: "example.org/v1", Kind: "Document", Data: data}
}

func emptyCall() sdktest.Call {
	return sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", document(""))}
}

// panicking panics in every method.
type panicking struct{}

func (panicking) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	panic("Reconcile") //nolint:forbidigo // what is tested
}

func (panicking) Delete(context.Context, *sdk.Request) (*sdk.Response, error) {
	panic(errors.New("Delete")) //nolint:forbidigo // what is tested
}

func (panicking) Abort(context.Context, *sdk.Request) (*sdk.Response, error) {
	return &sdk.Response{ProviderStatus: unmarshallable{}}, nil
}

func (panicking) ForceReconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	var none *sdk.Error
	return nil, none // an error that is not nil, but panics when it is asked for its text
}

func (panicking) Render(context.Context, *sdk.Request) (*sdk.RenderResponse, error) {
	panic("Render") //nolint:forbidigo // what is tested
}

func (panicking) Validate(context.Context, *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	panic("Validate") //nolint:forbidigo // what is tested
}

func (panicking) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHook(func(
		context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type,
	) (*hook.Result, error) {
		panic("hook") //nolint:forbidigo // what is tested
	}, hook.Start)
}

func (panicking) Watch(_ context.Context, wake func(namespace, name string)) error {
	wake("default", "item")
	panic("Watch") //nolint:forbidigo // what is tested
}

func (panicking) Holdings(context.Context, *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	panic("Holdings") //nolint:forbidigo // what is tested
}

func (panicking) Collect(context.Context, *sdk.CollectRequest) error {
	var none *sdk.Error
	return none // an error that is not nil, but panics when it is asked for its text
}

type unmarshallable struct{}

func (unmarshallable) MarshalJSON() ([]byte, error) {
	panic("MarshalJSON") //nolint:forbidigo // what is tested
}

func TestPanicsEndTheCallAndNotThePlugin(t *testing.T) {
	t.Parallel()
	plugin := sdktest.New(t, panicking{}, options()...)
	call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", nil)}
	ctx := t.Context()

	isPanic := func(e sdktest.Error) bool {
		return e.Reason == sdk.ReasonPanic && slices.Equal(e.Codes, []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem})
	}
	for name, operation := range map[string]func(context.Context, sdktest.Call) *sdktest.Result{
		"Reconcile": plugin.Reconcile, "Delete": plugin.Delete,
		"Abort": plugin.Abort, "ForceReconcile": plugin.ForceReconcile,
	} {
		result := operation(ctx, call)
		if result.Failed == nil || !isPanic(result.Failed.Errors[0]) {
			t.Errorf("%s: expected a failure with reason %s, but found: %s", name, sdk.ReasonPanic, result)
			continue
		}
		if strings.Contains(result.Failed.Error(), "goroutine") {
			t.Errorf("%s: the stack belongs to the log, not to the status: %s", name, result)
		}
	}
	var failed *sdktest.Failed
	_, renderErr := plugin.Render(ctx, call)
	_, holdingsErr := plugin.Holdings(ctx, nil)
	for name, err := range map[string]error{
		"Render": renderErr, "Holdings": holdingsErr, "Collect": plugin.Collect(ctx, nil, nil),
	} {
		if !errors.As(err, &failed) || !isPanic(failed.Errors[0]) {
			t.Errorf("%s: expected reason %s, but found %v", name, sdk.ReasonPanic, err)
		}
	}
	if _, err := plugin.Validate(ctx, "example.org/test", nil); err == nil {
		t.Error("Validate: expected an error")
	}
	outcomes, err := plugin.RunHooks(ctx, hook.Start, nil, nil)
	if err != nil || len(outcomes) != 1 || outcomes[0].Err == nil || !isPanic(*outcomes[0].Err) {
		t.Errorf("RunHooks: expected reason %s, but found %v, error %v", sdk.ReasonPanic, outcomes, err)
	}

	watchCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	woken := 0
	err = plugin.Watch(watchCtx, func(string, string) {
		if woken++; woken == 2 {
			cancel()
		}
	})
	if woken != 2 || err != nil {
		t.Errorf("Watch: expected to be called again after a panic, but found %d wake-ups, error %v", woken, err)
	}

	if name := plugin.Info().Name; name != "test" {
		t.Errorf("the plugin does not live on: its name is %q", name)
	}
}

// The protocol promises 64 MiB; gRPC's own limit is 4 MiB.
func TestLargeMessagesPassBothWays(t *testing.T) {
	t.Parallel()
	deployer := fake{reconcile: func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		document := json.RawMessage(req.DeployItem.Spec.Config.Raw)
		return &sdk.Response{ProviderStatus: document}, req.SaveProviderStatus(ctx, document)
	}}
	item := sdktest.DeployItem("example.org/test", document(strings.Repeat("x", 16<<20)))
	result := sdktest.New(t, deployer, options()...).Reconcile(t.Context(), sdktest.Call{DeployItem: item})
	if result.Err != nil || result.Succeeded == nil {
		t.Fatalf("expected success, but found error %v", result.Err)
	}
	if !bytes.Equal(item.Spec.Config.Raw, result.ProviderStatus) {
		t.Errorf("%d bytes became %d", len(item.Spec.Config.Raw), len(result.ProviderStatus))
	}
}
