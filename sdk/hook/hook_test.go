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
		reason   string
		register func(hook.Hooks) hook.Hooks
		want     []string
	}{
		"several types": {
			reason:   "a function runs at each of its types, and is told which it is",
			register: func(h hook.Hooks) hook.Hooks { return h.RegisterHook(named("f"), hook.End, hook.Start) },
			want:     []string{"f at Start", "f at End"},
		},
		"no types": {
			reason:   "without types there is no effect",
			register: func(h hook.Hooks) hook.Hooks { return h.RegisterHook(named("f")) },
		},
		"setup": {
			reason: "the types come with the function",
			register: func(h hook.Hooks) hook.Hooks {
				return h.RegisterHookSetup(hook.Setup{Func: named("f"), Types: []hook.Type{hook.Start, hook.BeforeDelete}})
			},
			want: []string{"f at Start", "f at BeforeDelete"},
		},
		"chain": {
			reason: "functions of a type run in the order of their registration, however they were registered",
			register: func(h hook.Hooks) hook.Hooks {
				return h.RegisterHook(named("first"), hook.End).
					RegisterHook(named("nowhere")).
					RegisterHookSetup(hook.Setup{Func: named("second"), Types: []hook.Type{hook.End, hook.Start}}).
					RegisterHook(named("third"), hook.End)
			},
			want: []string{"second at Start", "first at End", "second at End", "third at End"},
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
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
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
	for _, tc := range []struct {
		reason    string
		condition v1alpha1.Condition
		want      bool
	}{
		{"its job", v1alpha1.Condition{Type: "Started", Reason: "StartedByHook", Message: "job"}, true},
		{"an earlier job", v1alpha1.Condition{Type: "Started", Reason: "StartedByHook", Message: "earlier"}, false},
		{"a user's job", v1alpha1.Condition{Type: "Started", Reason: "Changed", Message: "job"}, false},
		{"another condition", v1alpha1.Condition{Type: "Ready", Reason: "StartedByHook", Message: "job"}, false},
	} {
		item := &v1alpha1.DeployItem{}
		item.Status.JobID, item.Status.Conditions = "job", []v1alpha1.Condition{tc.condition}
		if got := hook.AskedFor(item); got != tc.want {
			t.Errorf("%s: found %t", tc.reason, got)
		}
	}
}
