package pluginhook

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/host/internal/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// fakePlugin is a plugin whose hooks of one type answer so; without an answer they hang.
type fakePlugin struct {
	name     string
	hookType sdkhook.Type
	calls    *[]string
	outcomes []plugin.HookOutcome
	err      error
	targets  bool
	got      plugin.HookCall
}

func (p *fakePlugin) Name() string { return p.name }
func (p *fakePlugin) Info() plugin.Info {
	return plugin.Info{Name: p.name, Capabilities: plugin.Capabilities{
		HookTypes: []string{string(p.hookType)}, HookTargets: p.targets,
	}}
}
func (p *fakePlugin) Build() string { return "b" }

func (p *fakePlugin) RunHooks(ctx context.Context, call plugin.HookCall) ([]plugin.HookOutcome, error) {
	*p.calls, p.got = append(*p.calls, p.name+" "+string(call.Type)), call
	if p.err == nil && p.outcomes == nil {
		<-ctx.Done()
		return nil, fmt.Errorf("call: %w", ctx.Err())
	}
	if _, bounded := ctx.Deadline(); bounded { // a function that leaves off when its time is over
		<-ctx.Done()
	}
	return p.outcomes, p.err
}

// hooking is a plugin with Start hooks.
func hooking(name string, calls *[]string, err error, outcomes ...plugin.HookOutcome) Plugin {
	return &fakePlugin{name: name, hookType: sdkhook.Start, calls: calls, outcomes: outcomes, err: err}
}

func TestCallsOfHooks(t *testing.T) {
	var calls []string
	none := plugin.HookOutcome{}
	result := func(r sdkhook.Result) plugin.HookOutcome { return plugin.HookOutcome{Result: &r} }
	failed := func(e plugin.Error) plugin.HookOutcome { return plugin.HookOutcome{Error: &e} }
	configuration := []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}
	for name, tc := range map[string]struct {
		reason  string
		plugins []Plugin
		timeout time.Duration
		want    *sdkhook.Result
		// aborting are the plugins of which a function aborts.
		aborting []string
		calls    []string
		err      *contract.Error
		cause    error
	}{
		"none": {
			reason:  "a plugin without a hook of the type is not called",
			plugins: []Plugin{&fakePlugin{name: "a", hookType: sdkhook.End, calls: &calls}},
		},
		"no opinion": {
			reason: "nil of nil", plugins: []Plugin{hooking("a", &calls, nil, none, none)}, calls: []string{"a Start"},
		},
		// Rule (hooks.md#results): Results of several plugins count together, in the order of the plugins.
		"several": {
			reason: "all functions of all plugins count, in the order of the plugins",
			plugins: []Plugin{
				hooking("b", &calls, nil, result(sdkhook.Result{RequeueAfter: 5}), none),
				hooking("a", &calls, nil, result(sdkhook.Result{AbortReconcile: true, RequeueAfter: 3})),
			},
			want: &sdkhook.Result{AbortReconcile: true, RequeueAfter: 3}, aborting: []string{"a"},
			calls: []string{"b Start", "a Start"},
		},
		// Rule (hooks.md#errors): After an error of a hook the results do not count, and the error is returned.
		"a function fails": {
			reason: "the results do not count, and nobody is called any more",
			plugins: []Plugin{
				hooking(
					"a", &calls, nil, result(sdkhook.Result{AbortReconcile: true}),
					failed(plugin.Error{Message: "broken", Codes: configuration}),
				),
				hooking("b", &calls, nil, none),
			},
			calls: []string{"a Start"},
			err:   hookError("HookFailed", "broken", configuration...),
		},
		"a function fails for a reason": {
			reason:  "the function names it",
			plugins: []Plugin{hooking("a", &calls, nil, failed(plugin.Error{Reason: "Friday", Message: "no"}))},
			calls:   []string{"a Start"},
			err:     hookError("Friday", "no"),
		},
		"not running": {
			reason:  "nothing goes on without it",
			plugins: []Plugin{hooking("a", &calls, plugin.ErrNotRunning)},
			calls:   []string{"a Start"},
			err:     hookError("HookNotRun", plugin.ErrNotRunning.Error()),
			cause:   plugin.ErrNotRunning,
		},
		"hangs": {
			reason: "its time is over", plugins: []Plugin{hooking("a", &calls, nil)}, timeout: time.Millisecond,
			calls: []string{"a Start"},
			err:   hookError("HookTimeout", "no answer within 1ms"),
		},
		"leaves off": {
			reason:  "its time is over, and it fails for that",
			plugins: []Plugin{hooking("a", &calls, nil, failed(plugin.Error{Message: "context deadline exceeded"}))},
			timeout: time.Millisecond, calls: []string{"a Start"},
			err: hookError("HookTimeout", "no answer within 1ms"),
		},
	} {
		t.Run(name, func(t *testing.T) {
			calls = nil
			hooks := Set{Plugins: tc.plugins, Timeout: tc.timeout}
			got, aborting, err := hooks.Run(t.Context(), sdkhook.Start, nil, nil)
			if diff := cmp.Diff(tc.aborting, aborting); diff != "" {
				t.Errorf("%s: aborting (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.calls, calls); diff != "" {
				t.Errorf("%s: calls (-want +got):\n%s", tc.reason, diff)
			}
			if tc.cause != nil && !errors.Is(err, tc.cause) {
				t.Errorf("%s: unexpected cause: %v", tc.reason, err)
			}
			var found *contract.Error
			if e := (contract.Error{}); errors.As(err, &e) {
				e.Cause = nil
				found = &e
			}
			if diff := cmp.Diff(tc.err, found); diff != "" {
				t.Errorf("%s: error (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

func hookError(reason, message string, codes ...v1alpha1.ErrorCode) *contract.Error {
	return &contract.Error{
		Operation: "Start", Reason: reason, Message: `Start hook of the plugin "a": ` + message, Codes: codes, Plugin: "a",
	}
}

// TestHostStopsDuringAHook: that the host stops is no failure of a hook.
func TestHostStopsDuringAHook(t *testing.T) {
	stop := errors.New("the host stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	var calls []string
	hooks := Set{Plugins: []Plugin{hooking("a", &calls, nil)}, Timeout: time.Hour}
	_, _, err := hooks.Run(ctx, sdkhook.Start, nil, nil)
	if failed := (contract.Error{}); !errors.Is(err, stop) || errors.As(err, &failed) {
		t.Errorf("unexpected error: %v", err)
	}
}

// TestTargetsOfHooksHaveNoContent: the credentials in a Target are not for hooks.
func TestTargetsOfHooksHaveNoContent(t *testing.T) {
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{
			Name: "t", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "secret", "a": "b"},
		},
		Spec: v1alpha1.TargetSpec{
			Type: "x", Configuration: &runtime.RawExtension{
				Raw: []byte(`{"kubeconfig":"secret"}`),
			}, SecretRef: &v1alpha1.LocalSecretReference{Name: "s"},
		},
	}
	before := target.DeepCopy()
	want := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{"a": "b"}},
		Spec:       v1alpha1.TargetSpec{Type: "x", SecretRef: &v1alpha1.LocalSecretReference{Name: "s"}},
	}
	if diff := cmp.Diff(want, Target(target)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, target); diff != "" {
		t.Errorf("the target itself was changed:\n%s", diff)
	}
}

// Rule (hooks.md#when-they-run): A Target that cannot be used stops no hook: `sdk.HookTarget` returns the problem.
func TestProblemOfATarget(t *testing.T) {
	fake, err := testenv.FakeClient()
	if err != nil {
		t.Fatal(err)
	}
	var calls []string
	p := &fakePlugin{name: "a", hookType: sdkhook.End, calls: &calls, targets: true, outcomes: []plugin.HookOutcome{{}}}
	hooks := Set{Plugins: []Plugin{p}, Targets: target.NewResolver(fake, fake, target.Options{})}
	for name, ref := range map[string]*v1alpha1.ObjectReference{"": nil, "NoTargetFound": {Name: "gone"}} {
		item := &v1alpha1.DeployItem{
			ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "i"}, Spec: v1alpha1.DeployItemSpec{Target: ref},
		}
		if _, _, err := hooks.Run(t.Context(), sdkhook.End, item, nil); err != nil {
			t.Errorf("%q: the hook did not run: %v", name, err)
		}
		if problem := p.got.Problem; (problem != nil) != (name != "") || p.got.Resolved != nil ||
			problem != nil && (problem.Reason != name || len(problem.Codes) == 0) {
			t.Errorf("%q: the hook has got %+v", name, problem)
		}
	}
}
