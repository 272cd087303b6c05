package plugin

import (
	"context"
	"encoding/json"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// serveTestHooks is a plugin that brings nothing but hooks, for the items of echo and for others.
func serveTestHooks() {
	hooks := hook.Hooks{}.
		RegisterHook(startHook, hook.Start).
		RegisterHook(witness, hook.BeforeReconcile).
		RegisterHook(indifferent, hook.BeforeReconcile, hook.End)
	sdk.ServeHooks(hooks, sdk.Name("audit"), sdk.Version("v2"), sdk.HookedTypes("test.pergola.dev/other", echoType))
}

func startHook(_ context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, _ hook.Type) (*hook.Result,
	error) {
	return &hook.Result{RequeueAfter: time.Hour, AbortReconcile: item == nil && target == nil}, nil
}

func indifferent(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
	return nil, nil
}

// witness does what the name of the item says, or tells what it has seen.
func witness(ctx context.Context, item *v1alpha1.DeployItem, target *v1alpha1.Target, _ hook.Type) (*hook.Result,
	error) {
	switch item.Name {
	case "exit":
		os.Exit(7)
	case "hang":
		leave("hanging", "yes")
		<-ctx.Done()
		leave("cancelled", "yes")
		return nil, context.Cause(ctx)
	case "panic":
		panic("the item asks for it") //nolint:forbidigo // that is the point
	}
	seen, err := json.Marshal(map[string]any{"config": item.Spec.Config, "status": item.Status.ProviderStatus,
		"job": item.Status.JobID, "target": target})
	if err != nil {
		return nil, err
	}
	return nil, sdk.ConfigurationError("Seen", "%s", seen)
}

// renderer is a deployer that knows its desired objects, and makes its exports of them.
type renderer struct{ echo }

var _ sdk.Renderer = renderer{}

func (renderer) Render(_ context.Context, req *sdk.Request) (*sdk.RenderResponse, error) {
	switch req.DeployItem.Name {
	case "fail":
		return nil, sdk.ConfigurationError("Wrong", "spec.config: is wrong")
	case "exit":
		os.Exit(7)
	case "hang":
		sleep()
	case "nothing":
		return nil, nil
	}
	object, err := json.Marshal(map[string]any{
		"apiVersion": "v1", "kind": "Seen", "config": req.DeployItem.Spec.Config,
		"status": req.DeployItem.Status.ProviderStatus, "content": string(req.Target.Content),
	})
	return &sdk.RenderResponse{Children: []sdk.Child{{Name: "a", Object: object}}}, err
}

func (renderer) Reconcile(_ context.Context, req *sdk.Request) (*sdk.Response, error) {
	return &sdk.Response{Exports: map[string]any{"changed": req.Children != nil, "children": req.Children}}, nil
}

// RunHooks misbehaves as the name of the item says.
func (r *raw) RunHooks(_ context.Context, in *deployerv1.RunHooksRequest) (*deployerv1.RunHooksResponse, error) {
	none := &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_None{None: &deployerv1.NoResult{}}}
	out := &deployerv1.RunHooksResponse{}
	switch itemName(in.GetDeployItem()) {
	case "crash":
		os.Exit(7)
	case "refusal":
		return nil, status.Error(codes.FailedPrecondition, strings.Repeat("ü", maxMessage))
	case "empty":
		out.Outcomes = []*deployerv1.HookOutcome{none, {}}
	case "many":
		out.Outcomes = slices.Repeat([]*deployerv1.HookOutcome{none}, maxOutcomes+1)
	case "huge":
		out.Outcomes = []*deployerv1.HookOutcome{hookFailure(strings.Repeat("x", maxAnswerBytes))}
	case "long":
		out.Outcomes = []*deployerv1.HookOutcome{hookFailure(strings.Repeat("x", maxAnswerBytes/2))}
	case "past":
		out.Outcomes = []*deployerv1.HookOutcome{{Outcome: &deployerv1.HookOutcome_Result{
			Result: &deployerv1.HookResult{RequeueAfter: durationpb.New(-time.Hour)},
		}}}
	}
	return out, nil
}

func hookFailure(message string) *deployerv1.HookOutcome {
	return &deployerv1.HookOutcome{Outcome: &deployerv1.HookOutcome_Error{Error: &deployerv1.Error{Message: message}}}
}

// Render misbehaves as the name of the item says.
func (r *raw) Render(_ context.Context, in *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	const object = `{"apiVersion":"v1","kind":"ConfigMap"}`
	children := func(all ...*deployerv1.Child) *deployerv1.RenderResponse {
		return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{Children: &deployerv1.Children{Children: all}}}
	}
	switch itemName(in.GetStart().GetDeployItem()) {
	case "whole":
		if strings.Contains(string(in.GetStart().GetDeployItem()), `"config":`) {
			return children(&deployerv1.Child{Name: "a", Object: []byte(object)}), nil
		}
	case "empty":
		return &deployerv1.RenderResponse{}, nil
	case "65MiB":
		return children(&deployerv1.Child{Name: "a", Object: make([]byte, 65<<20)}), nil
	case "garbage":
		return children(&deployerv1.Child{Name: "a", Object: []byte("\xff")}), nil
	}
	return nil, status.Error(codes.FailedPrecondition, "no such item")
}

// itemName finds the name of an item without a decoder, as a plugin in another language might.
func itemName(item []byte) string {
	_, rest, _ := strings.Cut(string(item), `"name":"`)
	name, _, _ := strings.Cut(rest, `"`)
	return name
}
