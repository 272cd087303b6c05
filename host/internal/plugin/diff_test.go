package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Diff does what the name of the item says.
func (r *raw) Diff(ctx context.Context, in *deployerv1.DiffRequest) (*deployerv1.DiffResponse, error) {
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
	case "hang":
		<-ctx.Done()
		return nil, ctx.Err()
	case "exit":
		os.Exit(7)
	}
	return nil, status.Error(codes.FailedPrecondition, "no such item")
}

func TestDiff(t *testing.T) {
	t.Parallel()
	p := start(t, "raw_differ").plugin("raw_differ")
	if !p.Info().Capabilities.Diff {
		t.Error("the plugin says that it can")
	}
	seen, err := json.Marshal(renderCall("item").Target)
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		reason, item string
		want         *Diff
	}{
		{"states are passed on as they are, and the Target arrives", "item", &Diff{Changes: []sdk.Change{
			{Object: "ConfigMap a/b", Action: sdk.ActionUpdate, Before: seen, After: json.RawMessage(`{"n":9007199254740993}`)},
			{Object: "Secret a/c", Action: sdk.ActionFail, Note: "it is immutable"},
		}}},
		{"a job may change nothing", "nothing", &Diff{Changes: []sdk.Change{}}},
		{"what is wrong has its codes", "fail", &Diff{Errors: []Error{{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Diff", Reason: "Wrong",
			Message: "spec.config: is wrong",
		}}}},
	} {
		got, err := p.Diff(t.Context(), renderCall(tc.item))
		if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, diff (-want +got):\n%s", tc.reason, err, diff)
		}
	}
}

func TestDiffThatBreaksTheProtocol(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	for item, want := range map[string]string{
		"empty": "neither changes nor failed", "refusal": "no such item",
		"garbage": `its change of "a": the state after it: expected a JSON object`,
	} {
		if out, err := h.plugin("raw").Diff(t.Context(), renderCall(item)); !errors.Is(err,
			ErrProtocol) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: expected ErrProtocol with %q, but found %v: %v", item, want, out, err)
		}
	}
}

func TestChangesFromWire(t *testing.T) {
	t.Parallel()
	change := func(object, action, before, after string) *deployerv1.Change {
		return &deployerv1.Change{Object: object, Action: action, Before: []byte(before), After: []byte(after)}
	}
	for _, tc := range []struct {
		reason string
		in     *deployerv1.Change
		want   string // part of the error; empty if nothing is wrong
	}{
		{"create", change("a", "create", "", "{}"), ""},
		{"update", change("a", "update", "{}", "\n {}"), ""},
		{"recreate", change("a", "recreate", "{}", "{}"), ""},
		{"delete", change("a", "delete", "{}", ""), ""},
		{"keep", change("a", "keep", "", ""), ""},
		{"fail", change("a", "fail", "", ""), ""},
		{"the longest name", change(strings.Repeat("n", maxChangeObject), "create", "", ""), ""},
		{"a longer one", change(strings.Repeat("n", maxChangeObject+1), "create", "", ""), "longer than 1024 bytes"},
		{"nobody can say what is meant", change("", "create", "", ""), `the object "" of its change 0 is empty`},
		{"no action", change("a", "", "", ""), `its change of "a" has the action ""`},
		{"an action that this host does not know", change("a", "Create", "", ""),
			`has the action "Create"; expected one of ["create" "update"`},
		{"null is none", change("a", "update", "null", "{}"), "the state before it: expected a JSON object"},
		{"a list", change("a", "update", "{}", "[{}]"), "the state after it: expected a JSON object"},
		{"more than one, and a secret in it", change("a", "update", "{}", `{"password":"t0ps3cret"}{}`),
			"the state after it: expected a JSON object"},
		{"no UTF-8", change("a", "update", "{\"a\":\"\xff\"}", "{}"), "the state before it: expected a JSON object"},
	} {
		out, err := changesFromWire([]*deployerv1.Change{tc.in})
		if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(),
			tc.want) || strings.Contains(err.Error(), "t0ps3cret")) {
			t.Errorf("%s: expected %q, but found: %v", tc.reason, tc.want, err)
		}
		if err == nil && len(out) != 1 {
			t.Errorf("%s: one has become %d", tc.reason, len(out))
		}
	}
}
