package plugin

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// namesOf are the names of plugins, in their order.
func namesOf(plugins []*Plugin) []string {
	var names []string
	for _, p := range plugins {
		names = append(names, p.Name())
	}
	return names
}

// The hooks of one plugin run for the items of another one, and both go on as usual.
func TestPluginOfNothingButHooks(t *testing.T) {
	t.Parallel()
	h := start(t, "echo", "hooks", "raw_a-hooked_one")
	eventually(t, "the claims to be settled", func() bool { return len(h.Admitted()) == 3 })
	want := &Info{
		Name: "audit", Version: "v2", SDKVersion: sdk.Release, HookedTypes: []v1alpha1.DeployItemType{echoType,
			"test.pergola.dev/other"},
		Capabilities: Capabilities{SeparateDocuments: true, HookTypes: []string{"End"}},
	}
	if diff := cmp.Diff(want, h.status("hooks").Info); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"echo", "a-hooked"}, namesOf(h.Serving())); diff != "" {
		t.Errorf("serving (-want +got):\n%s", diff)
	}
	for itemType, want := range map[v1alpha1.DeployItemType][]string{
		echoType: {"a-hooked", "audit"}, "test.pergola.dev/other": {"audit"}, "one": {"a-hooked"}, "none": nil,
	} {
		if diff := cmp.Diff(want, namesOf(h.Hooking(itemType))); diff != "" {
			t.Errorf("hooking %s (-want +got):\n%s", itemType, diff)
		}
	}
}

// A plugin whose check is to be passed is not passed over while it is away.
func TestHookingWhileAway(t *testing.T) {
	t.Parallel()
	clock := newClock()
	h := runHost(t, pluginDir(t, "hooks"), withClock(clock))
	eventually(t, "the claims to be settled", func() bool { return len(h.Hooking(echoType)) == 1 })
	h.crash("hooks")
	h.waitFor("hooks", Backoff)
	if got := h.Hooking(echoType); len(got) != 1 {
		t.Errorf("expected audit, but found %q", namesOf(got))
	}
	if _, err := h.plugin("hooks").RunHooks(t.Context(), hook.End, deployItem("item"), nil); !errors.Is(err,
		ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found: %v", err)
	}
}
