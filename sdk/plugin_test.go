package sdk_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
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

// panicking panics in all ways.
type panicking struct{ fake }

func (panicking) Reconcile(context.Context, *sdk.Request) (*sdk.Response, error) {
	panic(errors.New("Reconcile")) //nolint:forbidigo // what is tested
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

func (panicking) Validate(context.Context, *sdk.Request) (*sdk.ValidateResponse, error) {
	panic("Validate") //nolint:forbidigo // what is tested
}

func (panicking) Watch(_ context.Context, req *sdk.WatchRequest) error {
	req.Wake("default", "item")
	panic("Watch") //nolint:forbidigo // what is tested
}

func (panicking) Holdings(context.Context, *sdk.HoldingsRequest) (*sdk.HoldingsResponse, error) {
	panic("Holdings") //nolint:forbidigo // what is tested
}

func (panicking) Collect(context.Context, *sdk.CollectRequest) error {
	panic("Collect") //nolint:forbidigo // what is tested
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
	failure := func(result *sdktest.Result) error {
		if result.Failed == nil {
			return nil
		}
		return result.Failed
	}
	_, renderErr := plugin.Render(ctx, call)
	_, holdingsErr := plugin.Holdings(ctx, nil)
	for name, err := range map[string]error{
		"Reconcile": failure(plugin.Reconcile(ctx, call)), "Abort": failure(plugin.Abort(ctx, call)),
		"ForceReconcile": failure(plugin.ForceReconcile(ctx, call)), "Render": renderErr, "Holdings": holdingsErr,
		"Collect": plugin.Collect(ctx, nil, nil),
	} {
		var failed *sdktest.Failed
		if !errors.As(err, &failed) || failed.Errors[0].Reason != sdk.ReasonPanic ||
			!slices.Equal(failed.Codes(), []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}) {
			t.Errorf("%s: expected a failure with reason %s, but found %v", name, sdk.ReasonPanic, err)
		} else if strings.Contains(err.Error(), "goroutine") {
			t.Errorf("%s: the stack belongs to the log, not to the status: %v", name, err)
		}
	}
	if _, err := plugin.Validate(ctx, call); err == nil {
		t.Error("Validate: expected an error")
	}

	watchCtx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	woken := 0
	err := plugin.Watch(watchCtx, func(string, string) { woken++ })
	if woken != 1 || err == nil || !strings.Contains(err.Error(), "the deployer stopped watching") {
		t.Errorf("Watch: expected one wake-up before the end of the stream, but found %d, error %v", woken, err)
	}
}
