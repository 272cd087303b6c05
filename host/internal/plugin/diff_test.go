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

// What is said here of Render goes for each question with one answer.
func TestRender(t *testing.T) {
	t.Parallel()
	h := start(t, "raw")
	p := h.plugin("raw")
	call := func(item string) Call {
		c := fullCall()
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
	c := fullCall()
	for _, tc := range []struct {
		reason, item string
		want         *Diff
		wantErr      string // of ErrProtocol
	}{
		{"states are passed on as they are, and the Target arrives", "item", &Diff{Changes: []sdk.Change{
			{Object: "ConfigMap a/b", Action: sdk.ActionUpdate, Before: marshalled(t, c.Target),
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

func TestChildrenFromWire(t *testing.T) {
	t.Parallel()
	const object = `{"apiVersion":"v1","kind":"ConfigMap"}`
	child := func(name, object string) *deployerv1.Child {
		return &deployerv1.Child{Name: name, Object: []byte(object)}
	}
	for _, test := range []struct {
		reason string
		in     []*deployerv1.Child
		want   string // part of the error; empty if nothing is wrong
	}{
		{"none", nil, ""},
		{"several, of which two look alike", []*deployerv1.Child{child("a", object), child("b", object)}, ""},
		{"the longest name", []*deployerv1.Child{child(strings.Repeat("n", maxChildName), object)}, ""},
		{"a longer one", []*deployerv1.Child{child(strings.Repeat("n", maxChildName+1), object)}, "longer than 1024 bytes"},
		{"nobody can say which one is meant", []*deployerv1.Child{child("a", object), child("", object)},
			`"" of its desired object 1 is empty`},
		{"nobody can say which one is meant", []*deployerv1.Child{child("a", object), child("a", object)},
			`two of its desired objects have the name "a"`},
		{"no object at all", []*deployerv1.Child{child("a", "")}, "is no JSON object"},
		{"null is none", []*deployerv1.Child{child("a", "null")}, "no apiVersion or no kind"},
		{"a list", []*deployerv1.Child{child("a", "["+object+"]")}, "is no JSON object"},
		{"more than one", []*deployerv1.Child{child("a", object+object)}, "is no JSON object"},
		{"no kind", []*deployerv1.Child{child("a", `{"apiVersion":"v1"}`)}, "no apiVersion or no kind"},
		{"no version", []*deployerv1.Child{child("a", `{"kind":"ConfigMap"}`)}, "no apiVersion or no kind"},
		{"a kind that is no text", []*deployerv1.Child{child("a", `{"apiVersion":"v1","kind":1}`)}, "is no JSON object"},
	} {
		out, err := childrenFromWire(test.in)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: expected %q, but found: %v", test.reason, test.want, err)
		}
		if err == nil && len(out) != len(test.in) {
			t.Errorf("%s: %d have become %d", test.reason, len(test.in), len(out))
		}
	}
}
