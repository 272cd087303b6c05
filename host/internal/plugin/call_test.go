package plugin

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

func TestCallCarriesEverything(t *testing.T) {
	t.Parallel()
	h := start(t, "echo")
	outcome, err := h.plugin("echo").Call(t.Context(), Reconcile, Call{
		DeployItem: deployItem("item"),
		Target:     &v1alpha1.ResolvedTarget{Target: &v1alpha1.Target{}, Content: "content"},
		Context:    &v1alpha1.Context{ObjectMeta: metav1.ObjectMeta{Name: "context"}},
		Deadline:   time.Now().Add(time.Hour),
	}, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	want := &Outcome{
		Succeeded: &Succeeded{Exports: []byte(`{"context":"context","job":"job","name":"item","target":"content"}`)},
	}
	if diff := cmp.Diff(want, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
	outcome, err = h.plugin("echo").Call(t.Context(), Delete, Call{DeployItem: deployItem("item")}, &observer{})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&Outcome{Succeeded: &Succeeded{}}, outcome); diff != "" {
		t.Errorf("outcome (-want +got):\n%s", diff)
	}
}

// A call reaches the plugin while it is running, and is no call before.
func TestCallsNeedARunningPlugin(t *testing.T) {
	t.Parallel()
	calls := map[string]func(*Plugin) error{
		"Call": func(p *Plugin) error {
			_, err := p.Call(t.Context(), Abort, Call{DeployItem: deployItem("item")}, &observer{})
			return err
		},
		"Render": func(p *Plugin) error {
			_, err := p.Render(t.Context(), Call{DeployItem: deployItem("item")})
			return err
		},
		"Diff":     func(p *Plugin) error { _, err := p.Diff(t.Context(), Call{DeployItem: deployItem("item")}); return err },
		"Holdings": func(p *Plugin) error { _, err := p.Holdings(t.Context()); return err },
		"Collect":  func(p *Plugin) error { return p.Collect(t.Context(), nil) },
		"RunHooks": func(p *Plugin) error {
			_, err := p.RunHooks(t.Context(), HookCall{Type: hook.End, DeployItem: deployItem("item")})
			return err
		},
	}
	running := start(t, "raw_a-hooked_one").plugin("raw_a-hooked_one")
	for name, call := range calls {
		if err := call(&Plugin{}); !errors.Is(err, ErrNotRunning) {
			t.Errorf("%s: expected ErrNotRunning, but found: %v", name, err)
		}
		if err := call(running); !errors.Is(err, ErrProtocol) || !strings.Contains(err.Error(), name) && name != "Call" {
			t.Errorf("%s: expected that the plugin does not have it, but found: %v", name, err)
		}
	}
	if out, err := running.RunHooks(t.Context(), HookCall{Type: hook.BeforeDelete}); out != nil || err != nil {
		t.Errorf("expected no call where there is no function, but found %v (%v)", out, err)
	}
}

// A crash ends the calls of its plugin, each of which may be to blame, and none of another one. However many they are,
// there is one restart.
// Rule (operators-guide.md#plugin-states): A crash says whether other calls were running.
// Rule (SECURITY.md#plugins): A crash of a plugin ends no call of another plugin.
func TestCrashInTheMiddleOfCalls(t *testing.T) {
	t.Parallel()
	h := start(t, "raw_a_one", "raw_b_two")
	other := h.underWay("raw_b_two", "beat")
	var ended []<-chan error
	for range 64 {
		ended = append(ended, h.underWay("raw_a_one", "beat"))
	}
	h.crash("raw_a_one")
	for _, e := range ended {
		if err := <-e; !errors.Is(err, ErrCrashed) || !errors.Is(err, ErrBeside) {
			t.Errorf("expected ErrCrashed and ErrBeside, but found: %v", err)
		}
	}
	eventually(t, "the plugin to run again",
		func() bool { return h.status("raw_a_one").State == Running && h.status("raw_a_one").Restarted() > 0 })
	if got := h.status("raw_a_one"); got.Restarted() != 1 {
		t.Errorf("expected one restart, but found %v", got.Restarts)
	}
	select {
	case err := <-other:
		t.Errorf("the crash of one plugin has ended the call of another: %v", err)
	default:
	}
}

// A stopped process reads nothing, so that a message to it may be one too many: sending the request to stop then
// blocks.
func TestEndOfContextWhileThePluginDoesNotRead(t *testing.T) {
	t.Parallel()
	h := runHost(t, pluginDir(t, "raw"), func(o *Options) { o.StopGrace = 50 * time.Millisecond })
	h.signal("raw", syscall.SIGSTOP)
	item := deployItem("succeed")
	item.Spec.Config = &runtime.RawExtension{Raw: []byte(`"` + strings.Repeat("x", 1<<20) + `"`)}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	within(t, patience, "the end of the call", func() {
		if _, err := h.plugin("raw").Call(ctx, Reconcile, Call{DeployItem: item}, &observer{}); !errors.Is(err,
			context.DeadlineExceeded) {
			t.Errorf("expected the cause of the context, but found: %v", err)
		}
	})
}
