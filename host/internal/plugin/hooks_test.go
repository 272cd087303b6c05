package plugin

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

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
		Capabilities: Capabilities{SeparateDocuments: true, HookTypes: []string{"Start", "BeforeReconcile", "End"}},
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
	h.expectSuccess("echo")
	if _, err := h.call(t.Context(), "hooks", "item"); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(),
		`"audit" has no deployer`) {
		t.Errorf("expected that it deploys nothing, but found: %v", err)
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
	if _, err := h.plugin("hooks").Render(t.Context(), Call{DeployItem: deployItem("item")}); !errors.Is(err,
		ErrNotRunning) {
		t.Errorf("expected ErrNotRunning, but found: %v", err)
	}
}

func TestRunHooks(t *testing.T) {
	t.Parallel()
	h := start(t, "hooks")
	item := deployItem("item")
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`{"n":9007199254740993}`)}
	item.Status.ProviderStatus = &runtime.RawExtension{Raw: []byte(`{"kind":"Status"}`)}
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "cluster"},
		Spec: v1alpha1.TargetSpec{Type: "type",
			Configuration: &runtime.RawExtension{Raw: []byte(`{"kubeconfig":"secret"}`)}},
	}
	seen := func(target string) HookOutcome {
		return HookOutcome{Error: &Error{
			Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}, Operation: "BeforeReconcile", Reason: "Seen",
			Message: `{"config":{"n":9007199254740993},"job":"job","status":{"kind":"Status"},"target":` + target + `}`,
		}}
	}
	for _, test := range []struct {
		reason   string
		hookType hook.Type
		item     *v1alpha1.DeployItem
		target   *v1alpha1.Target
		want     []HookOutcome
	}{
		{"at the very beginning there is no item", hook.Start, nil, nil,
			[]HookOutcome{{Result: &hook.Result{RequeueAfter: time.Hour, AbortReconcile: true}}}},
		{"the item is whole, and the target without its content", hook.BeforeReconcile, item, target, []HookOutcome{
			seen(`{"metadata":{"name":"cluster"},"spec":{"type":"type"}}`), {},
		}},
		{"an item need not have a target", hook.BeforeReconcile, item, nil, []HookOutcome{seen("null"), {}}},
		{"no opinion is an outcome", hook.End, item, nil, []HookOutcome{{}}},
		{"there is no function", hook.BeforeDelete, item, nil, nil},
		{"a function that panics fails, and the next one runs", hook.BeforeReconcile, deployItem("panic"), nil, []HookOutcome{
			{Error: &Error{
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorInternalProblem}, Operation: "BeforeReconcile", Reason: sdk.ReasonPanic,
				Message: `plugin "audit" v2 panicked in its BeforeReconcile hook; its log has the stack`,
			}}, {},
		}},
	} {
		got, err := h.plugin("hooks").RunHooks(t.Context(), test.hookType, test.item, test.target)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, outcomes (-want +got):\n%s", test.reason, err, diff)
		}
	}
	if target.Spec.Configuration == nil {
		t.Error("the caller's target has changed")
	}
}

func TestHooksThatBreakTheProtocol(t *testing.T) {
	t.Parallel()
	h := start(t, "raw_a-hooked_one")
	for item, want := range map[string]string{
		"empty": "outcome 1 of its hooks is neither none, result nor error", "many": "101 outcomes",
		"huge": "larger than max", "refusal": "üü",
	} {
		out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem(item), nil)
		if !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), want) || len(err.Error()) > 2*maxMessage {
			t.Errorf("%s: expected ErrProtocol with %q, but found %v: %.1000v", item, want, out, err)
		}
	}
	if out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem("past"),
		nil); err != nil || *out[0].Result != (hook.Result{}) {
		t.Errorf("expected a requeue in the past to be none, but found %v (%v)", out, err)
	}
	out, err := h.plugin("raw_a-hooked_one").RunHooks(t.Context(), hook.End, deployItem("long"), nil)
	if err != nil || len(out[0].Error.Message) > maxMessage+20 {
		t.Errorf("expected a message that was cut (%v)", err)
	}
	h.expectSuccess("raw_a-hooked_one")
}

// hookUnderWay runs a hook that does not come to an end by itself, and returns once the plugin is at it.
func (h *host) hookUnderWay(ctx context.Context) <-chan error {
	h.t.Helper()
	ended := make(chan error, 1)
	go func() {
		_, err := h.plugin("hooks").RunHooks(ctx, hook.BeforeReconcile, deployItem("hang"), nil)
		ended <- err
	}()
	left(h.t, h.dir, "hanging")
	if calls := h.status("hooks").Calls; calls != 1 {
		h.t.Errorf("expected a call under way, but found %d", calls)
	}
	return ended
}

func TestHookThatHangs(t *testing.T) {
	t.Parallel()
	h := start(t, "hooks")
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if _, err := h.plugin("hooks").RunHooks(ctx, hook.BeforeReconcile, deployItem("hang"), nil); !errors.Is(err,
		context.DeadlineExceeded) {
		t.Errorf("expected that the deadline ends it, but found: %v", err)
	}
	h = start(t, "hooks") // where nothing has been left
	interrupted, interrupt := context.WithCancelCause(t.Context())
	ended := h.hookUnderWay(interrupted)
	interrupt(ErrInterrupted)
	if err := <-ended; !errors.Is(err, ErrInterrupted) || errors.Is(err, ErrCrashed) || errors.Is(err, ErrNotRunning) {
		t.Errorf("expected the cause of the end, but found: %v", err)
	}
	left(t, h.dir, "cancelled")
	if s := h.status("hooks"); s.State != Running || s.Restarted() > 0 || s.Calls > 0 {
		t.Errorf("expected the plugin to be left alone, but found %+v", s)
	}
}
