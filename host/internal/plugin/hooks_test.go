package plugin

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/hostside"
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

func TestHooksThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	h := start(t, "raw_a-hooked_one")
	for item, want := range map[string]string{
		"empty": "outcome 1 of its hooks is neither none, result nor error", "many": "101 hook outcomes",
		"huge": "larger than max", "refusal": "üü",
	} {
		out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem(item), nil)
		if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*hostside.MaxMessage {
			t.Errorf("%s: expected ErrProtocol with %q, but found %v: %.1000v", item, want, out, err)
		}
	}
	if out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem("past"),
		nil); err != nil || *out[0].Result != (hook.Result{}) {
		t.Errorf("expected a requeue in the past to be none, but found %v (%v)", out, err)
	}
	out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem("long"), nil)
	if err != nil || len(out[0].Error.Message) > hostside.MaxMessage+20 {
		t.Errorf("expected a message that was cut (%v)", err)
	}
	if out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.BeforeDelete, deployItem("crash"),
		nil); out != nil || err != nil {
		t.Errorf("expected no call where there is no function, but found %v (%v)", out, err)
	}
}
