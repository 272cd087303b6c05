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
	hooks := hook.Hooks{}.
		RegisterHook(named("first"), hook.Start, hook.End).
		RegisterHook(named("nowhere")).
		RegisterHookSetup(hook.Setup{Func: named("second"), Types: []hook.Type{hook.End}})

	for _, hookType := range []hook.Type{hook.Start, hook.BeforeDelete, hook.End} {
		for _, f := range hooks[hookType] {
			if _, err := f(t.Context(), nil, nil, hookType); err != nil {
				t.Fatal(err)
			}
		}
	}
	want := []string{"first at Start", "first at End", "second at End"}
	if diff := cmp.Diff(want, called); diff != "" {
		t.Errorf("functions in order of their registration (-want +got):\n%s", diff)
	}
}

func TestZeroHooksCanBeRead(t *testing.T) {
	t.Parallel()
	var hooks hook.Hooks
	if len(hooks[hook.Start]) != 0 {
		t.Error("the zero value has functions")
	}
	hooks.RegisterHook(nil)
}
