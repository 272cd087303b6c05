package sdk_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	grpcstatus "google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// onlyHooks are those of a plugin that brings nothing else.
func onlyHooks() hook.Hooks {
	postpone := func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
		return &hook.Result{RequeueAfter: time.Minute}, nil
	}
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
	fail := func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
		return nil, errors.New("not on a Friday")
	}
	return hook.Hooks{}.
		RegisterHook(postpone, hook.Start).
		RegisterHook(fail, hook.BeforeReconcile).
		RegisterHook(refuse, hook.BeforeDelete).
		RegisterHook(fall, hook.End).
		RegisterHook(postpone, hook.End)
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
			Hooks: []hook.Type{hook.Start, hook.BeforeDelete, hook.BeforeReconcile, hook.End},
		},
		ProviderConfigSchemas: map[v1alpha1.DeployItemType][]byte{},
	}
	if diff := cmp.Diff(wantInfo, plugin.Info()); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	postponed := sdktest.HookOutcome{Result: &hook.Result{RequeueAfter: time.Minute}}
	call := sdktest.Call{DeployItem: sdktest.DeployItem("example.org/test", nil)}
	for _, test := range []struct {
		hookType hook.Type
		item     *v1alpha1.DeployItem
		want     []sdktest.HookOutcome
	}{
		{hook.Start, nil, []sdktest.HookOutcome{postponed}},
		{hook.BeforeReconcile, call.DeployItem, []sdktest.HookOutcome{{Err: &sdktest.Error{
			Operation: "BeforeReconcile", Reason: sdk.ReasonHookFailed, Message: "not on a Friday",
		}}}},
		{hook.BeforeDelete, call.DeployItem, []sdktest.HookOutcome{{Err: &sdktest.Error{
			Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorNoRetry, v1alpha1.ErrorConfigurationProblem},
			Operation: "Check", Reason: "Refused", Message: "check: item at BeforeDelete\nand more",
		}}}},
		{hook.End, call.DeployItem, []sdktest.HookOutcome{{Err: &sdktest.Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Operation: "End", Reason: sdk.ReasonPanic,
			Message: `plugin "audit" 1 panicked in its End hook; its log has the stack`,
		}}, postponed}},
		{hook.BeforeAbort, call.DeployItem, []sdktest.HookOutcome{}},
	} {
		got, err := plugin.RunHooks(t.Context(), test.hookType, test.item, nil)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, outcomes (-want +got):\n%s", test.hookType, err, diff)
		}
	}
	for name, operation := range map[string]func(context.Context, sdktest.Call) *sdktest.Result{
		"Reconcile": plugin.Reconcile, "Delete": plugin.Delete,
		"Abort": plugin.Abort, "ForceReconcile": plugin.ForceReconcile,
	} {
		if result := operation(t.Context(), call); grpcstatus.Code(result.Err) != codes.Unimplemented {
			t.Errorf("%s: expected Unimplemented, but found: %s", name, result)
		}
	}
	sdktest.Conform(t, plugin)
}

func TestHooksAloneAsAProgram(t *testing.T) {
	t.Parallel()
	sdktest.Conform(t, sdktest.Start(t, helper(t, "hooks").Path, helperEnv+"=hooks"))
}

// serveHooks serves hooks within this process, and returns a client of them. stop returns when every call has.
func serveHooks(
	t *testing.T, log *slog.Logger, hooks hook.Hooks,
) (client deployerv1.DeployerServiceClient, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	address, done, err := sdk.ServeHooksInProcess(ctx, log, hooks, hookOptions()...)
	if err != nil {
		t.Fatal(err)
	}
	return deployerv1.NewDeployerServiceClient(dial(t, address)), func() { cancel(); <-done }
}

// The functions that come after the end of a call are not run: nobody would hear of what they say.
func TestHooksEndWithTheirCall(t *testing.T) {
	t.Parallel()
	entered, returned, ran := make(chan struct{}), make(chan struct{}), make(chan struct{})
	hooks := hook.Hooks{}.
		RegisterHook(func(
			ctx context.Context, _ *v1alpha1.DeployItem, _ *v1alpha1.Target, _ hook.Type,
		) (*hook.Result, error) {
			defer close(returned)
			close(entered)
			<-ctx.Done()
			return nil, nil
		}, hook.Start).
		RegisterHook(func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
			close(ran)
			return nil, nil
		}, hook.Start)
	client, stop := serveHooks(t, slog.New(slog.DiscardHandler), hooks)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		<-entered
		cancel()
	}()
	_, err := client.RunHooks(ctx, &deployerv1.RunHooksRequest{HookType: "Start"})
	if grpcstatus.Code(err) != codes.Canceled {
		t.Errorf("expected Canceled, but found %v", err)
	}
	<-returned
	stop() // every call has returned
	select {
	case <-ran:
		t.Error("the next function ran")
	default:
	}
}

// The log says where a hook has panicked, and over which item.
func TestPanicOfAHookInTheLog(t *testing.T) {
	t.Parallel()
	fall := func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
		panic("hook") //nolint:forbidigo // what is tested
	}
	var out bytes.Buffer
	hooks := hook.Hooks{}.RegisterHook(fall, hook.Start, hook.End)
	client, stop := serveHooks(t, slog.New(slog.NewJSONHandler(&out, nil)), hooks)
	for _, in := range []*deployerv1.RunHooksRequest{
		{HookType: "Start"},
		{
			HookType:   "End",
			DeployItem: []byte(`{"metadata": {"namespace": "default", "name": "item"}, "status": {"jobID": "job"}}`),
		},
	} {
		if _, err := client.RunHooks(t.Context(), in); err != nil {
			t.Errorf("%s: %v", in.GetHookType(), err)
		}
	}
	stop() // nobody writes any more
	var got []map[string]any
	for line := range bytes.Lines(out.Bytes()) {
		var record map[string]any
		if err := json.Unmarshal(line, &record); err != nil {
			t.Fatal(err)
		}
		if stack, _ := record["stack"].(string); !strings.Contains(stack, "TestPanicOfAHookInTheLog") {
			t.Errorf("expected the stack of the function, but found %q", stack)
		}
		delete(record, "stack")
		delete(record, "time")
		got = append(got, record)
	}
	want := []map[string]any{
		{"level": "ERROR", "msg": "hook panicked", "panic": "hook", "hookType": "Start"},
		{
			"level": "ERROR", "msg": "hook panicked", "panic": "hook", "hookType": "End",
			"deployitem": "default/item", "jobID": "job",
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
}

// What cannot be read is the host's mistake, and no reason for a function to run.
func TestHooksOfWhatCannotBeRead(t *testing.T) {
	t.Parallel()
	client, stop := serveHooks(t, slog.New(slog.DiscardHandler), onlyHooks())
	defer stop()
	for name, in := range map[string]*deployerv1.RunHooksRequest{
		"item":   {HookType: "Start", DeployItem: []byte(`{"`)},
		"target": {HookType: "Start", Target: []byte(`[]`)},
	} {
		if _, err := client.RunHooks(t.Context(), in); grpcstatus.Code(err) != codes.InvalidArgument {
			t.Errorf("%s: expected InvalidArgument, but found %v", name, err)
		}
	}
}
