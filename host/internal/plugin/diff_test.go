package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Diff does what the name of the item says.
func (r *raw) Diff(_ context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
	changes := func(all ...*deployerv1.Change) *deployerv1.DiffResponse {
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Changes{Changes: &deployerv1.Changes{Changes: all}}}
	}
	start := in.GetStart()
	switch itemName(start.GetDeployItem()) {
	case "item":
		if start.GetResolvesTargets() {
			return nil, status.Error(codes.FailedPrecondition, "there is nobody to ask")
		}
		return changes(
			&deployerv1.Change{Object: "ConfigMap a/b", Action: "update", Before: start.GetTarget(),
				After: []byte(`{"n":9007199254740993}`)},
			&deployerv1.Change{Object: "Secret a/c", Action: "fail", Note: "it is immutable"},
		), nil
	case "nothing":
		return changes(), nil
	case "fail":
		return &deployerv1.DiffResponse{Outcome: &deployerv1.DiffResponse_Failed{Failed: &deployerv1.Failed{
			Errors: []*deployerv1.Error{{Codes: []string{"ERR_CONFIGURATION_PROBLEM"}, Operation: "Diff", Reason: "Wrong",
				Message: "spec.config: is wrong"}},
		}}}, nil
	case "empty":
		return &deployerv1.DiffResponse{}, nil
	case "garbage":
		return changes(&deployerv1.Change{Object: "a", Action: "create", After: []byte("\xff")}), nil
	}
	return nil, status.Error(codes.FailedPrecondition, "no such item")
}

// Render misbehaves as the name of the item says.
func (r *raw) Render(ctx context.Context, in *deployerv1.RenderRequest) (*deployerv1.RenderResponse, error) {
	object := []byte(`{"apiVersion":"v1","kind":"ConfigMap"}`)
	switch itemName(in.GetStart().GetDeployItem()) {
	case "refusal":
		return nil, status.Error(codes.FailedPrecondition, "no such item")
	case "crash":
		os.Exit(7)
	case "hang":
		<-ctx.Done()
		leave("cancelled", "yes")
		return nil, ctx.Err()
	case "empty":
		return &deployerv1.RenderResponse{}, nil
	case "65MiB":
		object = make([]byte, 65<<20)
	case "garbage":
		object = []byte("\xff")
	}
	return &deployerv1.RenderResponse{Outcome: &deployerv1.RenderResponse_Children{
		Children: &deployerv1.Children{Children: []*deployerv1.Child{{Name: "a", Object: object}}}}}, nil
}

func callWithTarget() Call {
	target := &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"}
	return Call{DeployItem: deployItem("item"), Target: target}
}

// What is said here of Render goes for each question with one answer.
func TestRender(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	p := h.plugin("raw")
	call := func(item string) Call {
		c := callWithTarget()
		c.DeployItem.Name = item
		return c
	}
	rendered, err := p.Render(t.Context(), call("item"))
	want := &Rendered{
		Children: []sdk.Child{{Name: "a", Object: json.RawMessage(`{"apiVersion":"v1","kind":"ConfigMap"}`)}},
	}
	if diff := cmp.Diff(want, rendered); diff != "" || err != nil {
		t.Errorf("error %v, rendered (-want +got):\n%s", err, diff)
	}
	for item, want := range map[string]string{
		"empty": "neither children nor failed", "65MiB": "larger than max",
		"garbage": `its desired object "a" is no JSON object`, "refusal": "no such item",
	} {
		if out, err := p.Render(t.Context(), call(item)); !errors.Is(err, ErrProtocol) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected ErrProtocol with %q, but found %v: %v", item, want, out, err)
		}
	}
	hanging := call("hang")
	hanging.Deadline = time.Now().Add(100 * time.Millisecond)
	if _, err := p.Render(t.Context(), hanging); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected that the deadline ends it, but found: %v", err)
	}
	ctx, interrupt := context.WithCancelCause(t.Context())
	time.AfterFunc(100*time.Millisecond, func() { interrupt(ErrInterrupted) })
	if _, err := p.Render(ctx, call("hang")); !errors.Is(err, ErrInterrupted) || errors.Is(err, ErrCrashed) {
		t.Errorf("expected that the context ends it, but found: %v", err)
	}
	left(t, h.dir, "cancelled")
	if s := h.status("raw"); s.State != Running || s.Restarted() > 0 || s.Calls > 0 {
		t.Errorf("expected the plugin to be left alone, but found %+v", s)
	}
	if _, err := p.Render(t.Context(), call("crash")); !errors.Is(err, ErrCrashed) {
		t.Errorf("expected ErrCrashed, but found: %v", err)
	}
}

func TestDiff(t *testing.T) {
	t.Parallel()
	p := start(t, "raw_differ").plugin("raw_differ")
	if !p.Info().Capabilities.Diff {
		t.Error("the plugin says that it can")
	}
	c := callWithTarget()
	target, err := json.Marshal(c.Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, item string
		want         *Diff
		wantErr      string // of ErrProtocol
	}{
		{"states are passed on as they are, and the Target arrives", "item", &Diff{Changes: []sdk.Change{
			{Object: "ConfigMap a/b", Action: sdk.ActionUpdate, Before: target,
				After: json.RawMessage(`{"n":9007199254740993}`)},
			{Object: "Secret a/c", Action: sdk.ActionFail, Note: "it is immutable"},
		}}, ""},
		{"a job may change nothing", "nothing", &Diff{Changes: []sdk.Change{}}, ""},
		{"what is wrong has its codes", "fail", &Diff{Errors: []Error{{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Diff", Reason: "Wrong",
			Message: "spec.config: is wrong",
		}}}, ""},
		{"no outcome", "empty", nil, "neither changes nor failed"},
		{"no object", "garbage", nil, `its change of "a": the state after it: expected a JSON object`},
	} {
		c.DeployItem.Name = tc.item
		got, err := p.Diff(t.Context(), c)
		if diff := cmp.Diff(tc.want, got); diff != "" || errors.Is(err, ErrProtocol) != (tc.wantErr != "") ||
			err != nil && !strings.Contains(err.Error(), tc.wantErr) {
			t.Errorf("%s: error %v, diff (-want +got):\n%s", tc.reason, err, diff)
		}
	}
}
