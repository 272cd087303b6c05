package hook_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

func TestRegistration(t *testing.T) {
	t.Parallel()
	var called []string
	named := func(name string) hook.Func {
		return func(_ context.Context, _ *v1alpha1.DeployItem, _ *v1alpha1.Target, hookType hook.Type) (*hook.Result, error) {
			called = append(called, name+" at "+string(hookType))
			return nil, nil
		}
	}
	cases := map[string]struct {
		register func(hook.Hooks) hook.Hooks
		want     []string
	}{
		// It is told which type it is.
		// Rule (hooks.md#hooks-in-plugins): A function runs for each type of its registration.
		"several types": {
			func(h hook.Hooks) hook.Hooks { return h.RegisterHook(named("f"), hook.End, hook.Start) },
			[]string{"f at Start", "f at End"},
		},
		// Rule (hooks.md#hooks-in-plugins): A registration without types has no effect.
		"no types": {func(h hook.Hooks) hook.Hooks { return h.RegisterHook(named("f")) }, nil},
		// Rule (hooks.md#hooks-in-plugins): A hook setup is registered for its own types.
		"setup": {
			func(h hook.Hooks) hook.Hooks {
				return h.RegisterHookSetup(hook.Setup{Func: named("f"), Types: []hook.Type{hook.Start, hook.BeforeDelete}})
			},
			[]string{"f at Start", "f at BeforeDelete"},
		},
		// Functions of a type run in the order of their registration, however they were registered.
		"chain": {
			func(h hook.Hooks) hook.Hooks {
				return h.RegisterHook(named("first"), hook.End).
					RegisterHook(named("nowhere")).
					RegisterHookSetup(hook.Setup{Func: named("second"), Types: []hook.Type{hook.End, hook.Start}}).
					RegisterHook(named("third"), hook.End)
			},
			[]string{"second at Start", "first at End", "second at End", "third at End"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			called = nil
			hooks := hook.Hooks{}
			returned := tc.register(hooks)
			for _, hookType := range hook.Types() {
				if len(returned[hookType]) != len(hooks[hookType]) {
					t.Errorf("%s: expected the receiver for chaining", hookType)
				}
				for _, f := range hooks[hookType] {
					if _, err := f(t.Context(), nil, nil, hookType); err != nil {
						t.Fatal(err)
					}
				}
			}
			if diff := cmp.Diff(tc.want, called); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestTypesAreInTheOrderOfTheFlow(t *testing.T) {
	t.Parallel()
	want := []hook.Type{
		"Start", "DuringResponsibilityCheck", "AfterResponsibilityCheck", "ShouldReconcile", "BeforeAnyReconcile",
		"BeforeAbort", "BeforeForceReconcile", "BeforeDelete", "BeforeReconcile", "End",
	}
	if diff := cmp.Diff(want, hook.Types()); diff != "" {
		t.Errorf("names and order (-want +got):\n%s", diff)
	}
	hook.Types()[0] = "changed"
	if hook.Types()[0] != hook.Start {
		t.Error("one caller's change is seen by another")
	}
}

func TestAskedFor(t *testing.T) {
	t.Parallel()
	for i, c := range []v1alpha1.Condition{
		{Type: "Started", Reason: "StartedByHook", Message: "job"}, // no other counts
		{Type: "Started", Reason: "StartedByHook", Message: "an earlier job"},
		{Type: "Started", Reason: "Changed", Message: "job"},
		{Type: "Ready", Reason: "StartedByHook", Message: "job"},
	} {
		item := &v1alpha1.DeployItem{}
		item.Status.JobID, item.Status.Conditions = "job", []v1alpha1.Condition{c}
		if got := hook.AskedFor(item); got != (i == 0) {
			t.Errorf("%+v: found %t", c, got)
		}
	}
}
