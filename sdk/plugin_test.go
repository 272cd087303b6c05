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

	"github.com/google/go-cmp/cmp"

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
	Number     int64  `json:"number,omitempty"`
}

// document is a provider configuration or status with a payload.
func document(data string) status {
	return status{APIVersion: "example.org/v1", Kind: "Document", Data: data}
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

func (panicking) Diff(context.Context, *sdk.Request) (*sdk.DiffResponse, error) {
	panic("Diff") //nolint:forbidigo // what is tested
}

func (panicking) Validate(context.Context, *sdk.ValidateRequest) (*sdk.ValidateResponse, error) {
	panic("Validate") //nolint:forbidigo // what is tested
}

func (panicking) Configure(context.Context, *sdk.ConfigureRequest) (*sdk.ConfigureResponse, error) {
	panic("Configure") //nolint:forbidigo // what is tested
}

func (panicking) Hooks() hook.Hooks {
	return hook.Hooks{}.RegisterHook(func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
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
		"Reconcile": plugin.Reconcile, "Delete": plugin.Delete, "Abort": plugin.Abort, "ForceReconcile": plugin.ForceReconcile,
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
	if _, err := plugin.Render(ctx, call); !errors.As(err, &failed) || !isPanic(failed.Errors[0]) {
		t.Errorf("Render: expected reason %s, but found %v", sdk.ReasonPanic, err)
	}
	if _, err := plugin.Diff(ctx, call); !errors.As(err, &failed) || !isPanic(failed.Errors[0]) {
		t.Errorf("Diff: expected reason %s, but found %v", sdk.ReasonPanic, err)
	}
	if _, err := plugin.Holdings(ctx, nil); !errors.As(err, &failed) || !isPanic(failed.Errors[0]) {
		t.Errorf("Holdings: expected reason %s, but found %v", sdk.ReasonPanic, err)
	}
	if err := plugin.Collect(ctx, nil, nil); !errors.As(err, &failed) || !isPanic(failed.Errors[0]) {
		t.Errorf("Collect: expected reason %s, but found %v", sdk.ReasonPanic, err)
	}
	if _, err := plugin.Validate(ctx, "example.org/test", nil); err == nil {
		t.Error("Validate: expected an error")
	}
	if _, err := plugin.Configure(ctx, nil); err == nil {
		t.Error("Configure: expected an error")
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

func TestLargeMessagesPassBothWays(t *testing.T) {
	t.Parallel()
	save := fake{reconcile: func(ctx context.Context, req *sdk.Request) (*sdk.Response, error) {
		return nil, req.SaveProviderStatus(ctx, json.RawMessage(req.DeployItem.Spec.Config.Raw))
	}}
	respond := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{ProviderStatus: json.RawMessage(req.DeployItem.Spec.Config.Raw)}, nil
	}}
	tests := map[string]struct {
		reason   string
		size     int
		deployer sdk.Deployer
	}{
		"5MiBSaved":      {reason: "gRPC's own limit is 4 MiB", size: 5 << 20, deployer: save},
		"5MiBWithResult": {reason: "gRPC's own limit is 4 MiB", size: 5 << 20, deployer: respond},
		"16MiB":          {reason: "the protocol promises 64 MiB", size: 16 << 20, deployer: respond},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			item := sdktest.DeployItem("example.org/test", document(strings.Repeat("x", tc.size)))
			result := sdktest.New(t, tc.deployer, options()...).Reconcile(t.Context(), sdktest.Call{DeployItem: item})
			if result.Err != nil || result.Succeeded == nil {
				t.Fatalf("%s: expected success, but found error %v", tc.reason, result.Err)
			}
			if !bytes.Equal(item.Spec.Config.Raw, result.ProviderStatus) {
				t.Errorf("%s: %d bytes became %d", tc.reason, len(item.Spec.Config.Raw), len(result.ProviderStatus))
			}
		})
	}
}

func TestLargeIntegersSurvive(t *testing.T) {
	t.Parallel()
	const big = 1<<53 + 1 // the first integer that a float64 cannot hold
	deployer := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		var config status
		if err := req.DecodeConfig(&config); err != nil {
			return nil, err
		}
		var before status
		if _, err := req.DecodeProviderStatus(&before); err != nil {
			return nil, err
		}
		return &sdk.Response{
			ProviderStatus: config,
			Exports:        map[string]any{"config": config.Number, "status": before.Number},
		}, nil
	}}
	config := document("")
	config.Number = big
	item := sdktest.DeployItem("example.org/test", config)
	item.Status.ProviderStatus = item.Spec.Config.DeepCopy()
	result := sdktest.New(t, deployer, options()...).Reconcile(t.Context(), sdktest.Call{DeployItem: item})
	want := &sdktest.Result{
		Succeeded: &sdktest.Succeeded{Exports: map[string]any{
			"config": json.Number("9007199254740993"), "status": json.Number("9007199254740993"),
		}},
		ProviderStatus: json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Document","number":9007199254740993}`),
	}
	if diff := cmp.Diff(want, result); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestExportsThatAreNoJSON(t *testing.T) {
	t.Parallel()
	deployer := fake{reconcile: func(context.Context, *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{Exports: map[string]any{"a": func() {}}}, nil
	}}
	call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", nil)}
	result := sdktest.New(t, deployer, options()...).Reconcile(t.Context(), call)
	if result.Failed == nil || !slices.Equal(result.Failed.Codes(), []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}) {
		t.Errorf("expected code %s, but found: %s", v1alpha1.ErrorInternalProblem, result)
	}
}

// A provider status that is returned together with an error is saved: it tells what the call did before it failed.
func TestProviderStatusTogetherWithError(t *testing.T) {
	t.Parallel()
	deployer := fake{reconcile: func(context.Context, *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{ProviderStatus: document("half done")}, errors.New("no more room")
	}}
	call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", nil)}
	result := sdktest.New(t, deployer, options()...).Reconcile(t.Context(), call)
	if result.Failed == nil || !strings.Contains(string(result.ProviderStatus), "half done") {
		t.Errorf("expected a failure with a provider status, but found: %s, status %s", result, result.ProviderStatus)
	}
}

func TestChildrenOfTheHost(t *testing.T) {
	t.Parallel()
	deployer := fake{reconcile: func(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
		return &sdk.Response{Exports: map[string]any{"changed": req.Children != nil, "count": len(req.Children)}}, nil
	}}
	plugin := sdktest.New(t, deployer, options()...)
	tests := map[string]struct {
		reason   string
		children []sdk.Child
		want     map[string]any
	}{
		"Unchanged": {reason: "nobody changed them", want: map[string]any{"changed": false, "count": json.Number("0")}},
		"Removed":   {reason: "somebody removed all", children: []sdk.Child{}, want: map[string]any{"changed": true, "count": json.Number("0")}},
		"Changed": {
			reason:   "somebody put others in their place",
			children: []sdk.Child{{Name: "a", Object: json.RawMessage(`{}`)}},
			want:     map[string]any{"changed": true, "count": json.Number("1")},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", nil), Children: tc.children}
			want := &sdktest.Result{Succeeded: &sdktest.Succeeded{Exports: tc.want}}
			if diff := cmp.Diff(want, plugin.Reconcile(t.Context(), call)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}
