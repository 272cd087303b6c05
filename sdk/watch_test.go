package sdk_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// watching is a deployer whose Watch is a function.
type watching struct {
	fake
	watch func(ctx context.Context, req *sdk.WatchRequest) error
}

func (w watching) Watch(ctx context.Context, req *sdk.WatchRequest) error { return w.watch(ctx, req) }

// watchedCalls are the items of a watch; each has a Target with a secret of its own.
func watchedCalls(n int) (calls []sdktest.Call) {
	for i := range n {
		item := sdktest.DeployItem("example.org/test", document(""))
		item.Name = fmt.Sprintf("item-%d", i)
		target := &sdk.Target{Name: fmt.Sprintf("target-%d", i), Content: fmt.Appendf(nil, "t0ps3cret-%d", i)}
		calls = append(calls, sdktest.Call{DeployItem: item, Target: target})
	}
	return calls
}

// Rule (plugin-authors.md#watching): A watch knows its items, and gets for one of them what a call would get now.
// Questions of several goroutines are answered in turn.
func TestWatchAsksTheHost(t *testing.T) {
	t.Parallel()
	calls := watchedCalls(20)
	var listed []sdk.WatchedItem
	var outside error
	var printed sync.Map
	plugin := sdktest.New(t, watching{watch: func(ctx context.Context, req *sdk.WatchRequest) error {
		var err error
		if listed, err = req.Items(ctx); err != nil {
			return err
		}
		_, outside = req.Request(ctx, "default", "another")
		var asking sync.WaitGroup
		for i, item := range listed {
			asking.Go(func() {
				got, err := req.Request(ctx, item.Namespace, item.Name)
				if err != nil || got.DeployItem.Name != item.Name || string(got.Target.Content) != fmt.Sprintf("t0ps3cret-%d", i) {
					t.Errorf("%s: found %v, error %v", item.Name, got, err)
				}
				printed.Store(fmt.Sprintf("%+v %#v", got, item), true)
				req.Wake(item.Namespace, item.Name)
			})
		}
		asking.Wait()
		<-ctx.Done()
		return nil
	}}, options()...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var woken, want []string
	err := plugin.WatchItems(ctx, func() []sdktest.Call { return calls }, func(_, name string) {
		if woken = append(woken, name); len(woken) == len(calls) {
			cancel()
		}
	})
	var wantItems []sdk.WatchedItem
	for _, call := range calls {
		want = append(want, call.DeployItem.Name)
		wantItems = append(wantItems, sdk.WatchedItem{
			Namespace: "default", Name: call.DeployItem.Name, Target: call.Target.Name,
		})
	}
	slices.Sort(want)
	slices.Sort(woken)
	if diff := cmp.Diff(want, woken); diff != "" || err != nil {
		t.Errorf("error %v, woken (-want +got):\n%s", err, diff)
	}
	if diff := cmp.Diff(wantItems, listed); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
	refused, _ := errors.AsType[*sdk.Error](outside)
	if refused == nil || refused.Reason != "ItemNotWatched" {
		t.Errorf("an item outside of the watch: %v", outside)
	}
	printed.Range(func(text, _ any) bool {
		if strings.Contains(text.(string), "t0ps3cret") {
			t.Errorf("there are credentials in %s", text)
		}
		return true
	})
}

// Rule (plugin-authors.md#watching): With an older host a watch has no items and gets HostTooOld; its wake-ups arrive.
func TestWatchOfAnOlderHost(t *testing.T) {
	t.Parallel()
	var errs []error
	plugin := sdktest.New(t, watching{watch: func(ctx context.Context, req *sdk.WatchRequest) error {
		_, itemsErr := req.Items(ctx)
		_, err := req.Request(ctx, "default", "item")
		errs = append(errs, itemsErr, err)
		req.Wake("default", "item")
		return err
	}}, options()...)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	err := plugin.Watch(ctx, func(string, string) { cancel() })
	for _, found := range errs {
		if e, ok := errors.AsType[*sdk.Error](found); !ok || e.Reason != sdk.ReasonHostTooOld {
			t.Errorf("expected the reason %s, but found %v", sdk.ReasonHostTooOld, found)
		}
	}
	if len(errs) != 2 || err != nil {
		t.Errorf("expected two questions and a wake-up, but found %v, error %v", errs, err)
	}
}

// What a host may say in hooks: the Target, why there is none, and nothing.
func TestHookTarget(t *testing.T) {
	t.Parallel()
	var got *sdk.Target
	var gotErr error
	functions := hook.Hooks{}.RegisterHook(
		func(ctx context.Context, _ *v1alpha1.DeployItem, _ *v1alpha1.Target, _ hook.Type) (*hook.Result, error) {
			got, gotErr = sdk.HookTarget(ctx)
			return nil, gotErr
		}, hook.Types()...)
	target := &v1alpha1.Target{ObjectMeta: metav1.ObjectMeta{Name: "here"}, Spec: v1alpha1.TargetSpec{
		Type: "other", Configuration: &runtime.RawExtension{Raw: []byte(`"t0ps3cret"`)},
	}}
	want := &sdk.Target{Name: "here", Type: "other", Content: []byte(`"t0ps3cret"`)}
	named := sdktest.DeployItem("example.org/test", nil)
	named.Spec.Target = &v1alpha1.ObjectReference{Name: "here"}
	for name, tc := range map[string]struct {
		options  []sdk.Option
		hookType hook.Type
		item     *v1alpha1.DeployItem
		target   *v1alpha1.Target
		want     *sdk.Target
		reason   string
	}{
		"the Target":                     {hookType: hook.End, item: named, target: target, want: want},
		"an item without one":            {hookType: hook.End, item: sdktest.DeployItem("example.org/test", nil)},
		"an older host":                  {hookType: hook.End, item: named, reason: sdk.ReasonHostTooOld},
		"before the host is responsible": {hookType: hook.DuringResponsibilityCheck, item: named},
		"no item":                        {hookType: hook.Start},
		"not asked for":                  {options: hookOptions(), hookType: hook.End, reason: sdk.ReasonHookFailed},
	} {
		if tc.options == nil {
			tc.options = append(hookOptions(), sdk.HookTargets())
		}
		outcomes, err := sdktest.NewHooks(t, functions, tc.options...).RunHooks(t.Context(), tc.hookType, tc.item, tc.target)
		if err != nil || len(outcomes) != 1 {
			t.Fatalf("%s: outcomes %v, error %v", name, outcomes, err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: Target (-want +got):\n%s", name, diff)
		}
		if reason := outcomes[0].Err; (reason == nil) != (tc.reason == "") || reason != nil && reason.Reason != tc.reason {
			t.Errorf("%s: expected the reason %q, but found %v", name, tc.reason, reason)
		}
	}
}
