package controller

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"sync"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// TestSpecChangesWhileAnHTTPHookIsAsked: the plugin does not get children of another spec than the item's.
func TestSpecChangesWhileAnHTTPHookIsAsked(t *testing.T) {
	t.Parallel()
	b := newHookedByHTTP(t, done, v1alpha1.HookPreReconcile)
	child := func(generation int64, label string) string {
		return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a","namespace":"b"%s},"data":{"n":"%d"}}`, label, generation)
	}
	var rendered int64
	b.plugin.render = func(_ context.Context, c plugin.Call) (*plugin.Rendered, error) {
		rendered = c.DeployItem.Generation
		return &plugin.Rendered{Children: []sdk.Child{{Name: "manifests[0]", Object: json.RawMessage(child(rendered, ""))}}}, nil
	}
	change := sync.OnceFunc(func() {
		patch := client.RawPatch(types.MergePatchType, []byte(`{"spec":{"config":{"apiVersion":"x/v1","kind":"X","n":2}}}`))
		if err := b.admin.Patch(context.WithoutCancel(t.Context()), b.item.DeepCopy(), patch); err != nil {
			t.Error(err)
		}
	})
	b.serve = func(w http.ResponseWriter, _ *http.Request) {
		change()
		_, _ = fmt.Fprintf(w, `{"children":{"configmap":%s}}`, child(rendered, `,"labels":{"x":"y"}`))
	}
	calls := 0
	b.plugin.call = func(_ context.Context, _ plugin.Operation, c plugin.Call, _ plugin.Observer) (*plugin.Outcome, error) {
		if calls++; c.DeployItem.Generation != rendered {
			t.Errorf("the item is of generation %d, and its children of generation %d", c.DeployItem.Generation, rendered)
		}
		return &plugin.Outcome{Succeeded: &plugin.Succeeded{}}, nil
	}
	b.setJob()
	if item := b.drive(); item.Status.Phase != v1alpha1.DeployItemPhaseSucceeded || calls != 1 {
		t.Errorf("%s after %d calls", describe(item), calls)
	}
}

// TestItemsWhoseHooksWereMissedAreWoken: when the plugin runs again, whether there was a job to note the error with
// or not.
func TestItemsWhoseHooksWereMissedAreWoken(t *testing.T) {
	t.Parallel()
	for _, hookType := range []sdkhook.Type{sdkhook.AfterResponsibilityCheck, sdkhook.BeforeReconcile} {
		for _, err := range []error{plugin.ErrNotRunning, plugin.ErrCrashed} {
			t.Run(fmt.Sprint(hookType, " ", err), func(t *testing.T) {
				t.Parallel()
				b := newHooked(t, done, nil)
				policy := &fakeDeployer{name: "policy", itemType: testType, capabilities: plugin.Capabilities{HookTypes: []string{string(hookType)}}}
				policy.hooks = b.plugin.hooks
				b.plugins.(*fakePlugins).hooking = []*fakeDeployer{policy}
				b.failing[hookType] = err
				b.setJob()
				b.look(t.Context())
				if woken := b.memory.hooksMended([]v1alpha1.DeployItemType{testType}, b.clock.Now()); woken[keyOf(b.item)] != "one" {
					t.Errorf("the item is not woken, but %v", woken)
				}
				b.failing[hookType] = nil
				if b.look(t.Context()); len(b.calls) != 1 {
					t.Errorf("calls %v, %s", b.calls, describe(b.read()))
				}
			})
		}
	}
}

// TestNotOursIsNotEndedHere: a job of another host's is not ended here, whatever its time, if a hook says that the
// item is not ours.
func TestNotOursIsNotEndedHere(t *testing.T) {
	t.Parallel()
	b := newHooked(t, func(context.Context, plugin.Operation, plugin.Observer) (*plugin.Outcome, error) { return waits("it") },
		[]sdkhook.Type{sdkhook.DuringResponsibilityCheck}, func(i *v1alpha1.DeployItem) { i.Spec.Timeout = "1m" })
	b.identity = "other"
	b.setJob()
	b.look(t.Context())
	b.identity = "here"
	b.memory.forget(keyOf(b.item))
	b.results[sdkhook.DuringResponsibilityCheck] = &sdkhook.Result{AbortReconcile: true}
	before := b.read()
	b.clock.Step(2 * time.Minute)
	b.look(t.Context())
	if after := b.read(); after.ResourceVersion != before.ResourceVersion {
		t.Errorf("it was written: %s", describe(after))
	}
}
