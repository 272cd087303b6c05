package plugin

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func renderCall(item string) Call {
	return Call{DeployItem: deployItem(item), Target: &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{},
		Content: "content"}}
}

func TestRender(t *testing.T) {
	t.Parallel()
	p := start(t, "renders").plugin("renders")
	c := renderCall("item")
	c.DeployItem.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"n":9007199254740993}`)}
	c.DeployItem.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"kind":"Status"}`)}
	object := `{"apiVersion":"v1","config":{"n":9007199254740993},"content":"content","kind":"Seen","status":{"kind":"Status"}}`
	for _, test := range []struct {
		reason string
		call   Call
		want   *Rendered
	}{
		{"the documents beside the item arrive, too", c, &Rendered{Children: []sdk.Child{{Name: "a",
			Object: json.RawMessage(object)}}}},
		{"an item may want nothing", renderCall("nothing"), &Rendered{Children: []sdk.Child{}}},
		{"what is wrong has its codes", renderCall("fail"), &Rendered{Errors: []Error{{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "Render", Reason: "Wrong",
			Message: "spec.config: is wrong",
		}}}},
	} {
		got, err := p.Render(t.Context(), test.call)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, rendered (-want +got):\n%s", test.reason, err, diff)
		}
	}
}

// A plugin that does not take its documents beside the item finds them in it.
func TestRenderOfWholeItem(t *testing.T) {
	t.Parallel()
	c := renderCall("whole")
	c.DeployItem.Spec.Config = &runtime.RawExtension{Raw: []byte(`{}`)}
	if out, err := start(t, "raw").plugin("raw").Render(t.Context(), c); err != nil || len(out.Children) != 1 {
		t.Errorf("expected one desired object, but found %v (%v)", out, err)
	}
}

// Nobody has changed them, somebody has removed them all, and somebody has changed one are three things.
func TestCallTakesChildren(t *testing.T) {
	t.Parallel()
	p := start(t, "renders").plugin("renders")
	for want, children := range map[string][]sdk.Child{
		`{"changed":false,"children":null}`: nil,
		`{"changed":true,"children":[]}`:    {},
		`{"changed":true,"children":[{"Name":"a","Object":{"n":9007199254740993}}]}`: {{Name: "a",
			Object: json.RawMessage(`{"n":9007199254740993}`)}},
	} {
		c := renderCall("item")
		c.Children = children
		outcome, err := p.Call(t.Context(), Reconcile, c, &observer{})
		if err != nil || string(outcome.Succeeded.Exports) != want {
			t.Errorf("expected %s, but found %v (%v)", want, outcome, err)
		}
	}
}

func TestRenderThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	h := start(t, "renders")
	hanging := renderCall("hang")
	hanging.Deadline = time.Now().Add(200 * time.Millisecond)
	if _, err := h.plugin("renders").Render(t.Context(), hanging); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected that the deadline ends it, but found: %v", err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.plugin("renders").Render(ctx, renderCall("hang")); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("expected that the context ends it, but found: %v", err)
	}
	if s := h.status("renders"); s.State != Running || s.Restarted() > 0 {
		t.Errorf("expected the plugin to be left alone, but found %+v", s)
	}
	if _, err := h.plugin("renders").Render(t.Context(), renderCall("exit")); !errors.Is(err, ErrCrashed) {
		t.Errorf("expected ErrCrashed, but found: %v", err)
	}
}

func TestRenderThatBreaksTheProtocol(t *testing.T) {
	t.Parallel()
	p := start(t, "raw").plugin("raw")
	for item, want := range map[string]string{
		"empty": "neither children nor failed", "65MiB": "larger than max",
		"garbage": `its desired object "a" is no JSON object`, "refusal": "no such item",
	} {
		if out, err := p.Render(t.Context(), renderCall(item)); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(),
			want) {
			t.Errorf("%s: expected ErrProtocol with %q, but found %v: %v", item, want, out, err)
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
