package hook

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	sdkhook "github.com/pergola-deploy/pergola/sdk/hook"
)

// fake is a plugin whose hooks answer what they are told.
type fake struct {
	name, build string
	types       []sdkhook.Type
	outcomes    []plugin.HookOutcome
	err         error
	hangs       bool
	calls       *[]string
}

var _ Plugin = fake{}

func (f fake) Name() string { return f.name }

func (f fake) Build() string { return f.build }

func (f fake) Info() plugin.Info {
	info := plugin.Info{Name: f.name, Version: "v1"}
	for _, t := range f.types {
		info.Capabilities.HookTypes = append(info.Capabilities.HookTypes, string(t))
	}
	return info
}

func (f fake) RunHooks(ctx context.Context, t sdkhook.Type, _ *v1alpha1.DeployItem, _ *v1alpha1.Target) ([]plugin.HookOutcome, error) {
	*f.calls = append(*f.calls, f.name+" "+string(t))
	if f.hangs {
		<-ctx.Done()
		return nil, fmt.Errorf("call: %w", ctx.Err())
	}
	return f.outcomes, f.err
}

func result(r sdkhook.Result) plugin.HookOutcome { return plugin.HookOutcome{Result: &r} }

func TestRun(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason  string
		plugins []fake
		want    *sdkhook.Result
		// aborting are the plugins of which a function aborts.
		aborting []string
		calls    []string
		err      *Error
	}{
		"none": {reason: "there is nobody to call"},
		"of another type": {
			reason:  "a plugin without a hook of the type is not called",
			plugins: []fake{{name: "a", types: []sdkhook.Type{sdkhook.End}}},
		},
		"no opinion": {
			reason:  "nil of nil",
			plugins: []fake{{name: "a", types: []sdkhook.Type{sdkhook.Start}, outcomes: []plugin.HookOutcome{{}, {}}}},
			calls:   []string{"a Start"},
		},
		"several": {
			reason: "all functions of all plugins count, in the order of the plugins",
			plugins: []fake{
				{name: "b", types: []sdkhook.Type{sdkhook.Start}, outcomes: []plugin.HookOutcome{result(sdkhook.Result{RequeueAfter: 5}), {}}},
				{name: "c", types: []sdkhook.Type{sdkhook.End}},
				{name: "a", types: []sdkhook.Type{sdkhook.Start, sdkhook.End}, outcomes: []plugin.HookOutcome{result(sdkhook.Result{AbortReconcile: true, RequeueAfter: 3})}},
			},
			want: &sdkhook.Result{AbortReconcile: true, RequeueAfter: 3}, aborting: []string{"a"},
			calls: []string{"b Start", "a Start"},
		},
		"a function fails": {
			reason: "the results do not count, and nobody is called any more",
			plugins: []fake{
				{name: "a", types: []sdkhook.Type{sdkhook.Start}, outcomes: []plugin.HookOutcome{
					result(sdkhook.Result{AbortReconcile: true}),
					{Error: &plugin.Error{Message: "broken", Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem}}},
				}},
				{name: "b", types: []sdkhook.Type{sdkhook.Start}},
			},
			calls: []string{"a Start"},
			err: &Error{
				Plugin: "a", Type: sdkhook.Start, Reason: ReasonFailed, Message: "broken",
				Codes: []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
			},
		},
		"a function fails for a reason": {
			reason:  "the function names it",
			plugins: []fake{{name: "a", types: []sdkhook.Type{sdkhook.Start}, outcomes: []plugin.HookOutcome{{Error: &plugin.Error{Reason: "Friday", Message: "no"}}}}},
			calls:   []string{"a Start"},
			err:     &Error{Plugin: "a", Type: sdkhook.Start, Reason: "Friday", Message: "no"},
		},
		"not running": {
			reason:  "nothing goes on without it",
			plugins: []fake{{name: "a", types: []sdkhook.Type{sdkhook.Start}, err: plugin.ErrNotRunning}},
			calls:   []string{"a Start"},
			err:     &Error{Plugin: "a", Type: sdkhook.Start, Reason: ReasonNotRun, Message: plugin.ErrNotRunning.Error(), Err: plugin.ErrNotRunning},
		},
		"hangs": {
			reason:  "its time is over",
			plugins: []fake{{name: "a", types: []sdkhook.Type{sdkhook.Start}, hangs: true}},
			calls:   []string{"a Start"},
			err:     &Error{Plugin: "a", Type: sdkhook.Start, Reason: ReasonTimeout, Message: "no answer within 1ms", Err: context.DeadlineExceeded},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var calls []string
			for i := range tc.plugins {
				tc.plugins[i].calls = &calls
			}
			hooks := New(tc.plugins, time.Millisecond)
			if !slices.ContainsFunc(tc.plugins, func(f fake) bool { return f.hangs }) {
				hooks = New(tc.plugins, 0)
			}
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
			var found *Error
			if errors.As(err, &found); tc.err != nil && !errors.Is(err, tc.err.Err) && tc.err.Err != nil {
				t.Errorf("%s: unexpected cause: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.err, found, cmpopts.IgnoreFields(Error{}, "Err")); diff != "" {
				t.Errorf("%s: error (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
}

// TestRunEndsWithItsContext: that the host stops is no failure of a hook.
func TestRunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	stop := errors.New("the host stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(stop)
	var calls []string
	_, _, err := New([]fake{{name: "a", types: []sdkhook.Type{sdkhook.Start}, hangs: true, calls: &calls}}, time.Hour).Run(ctx, sdkhook.Start, nil, nil)
	if failed := (*Error)(nil); !errors.Is(err, stop) || errors.As(err, &failed) {
		t.Errorf("unexpected error: %v", err)
	}
}

func TestBuild(t *testing.T) {
	t.Parallel()
	check := []sdkhook.Type{sdkhook.ShouldReconcile}
	hooks := New([]fake{{name: "a", build: "1", types: check}, {name: "b", build: "2"}, {name: "c", build: "3", types: check}}, 0)
	if got := hooks.Build(sdkhook.ShouldReconcile); got != "a=1,c=3" {
		t.Errorf("unexpected build %q", got)
	}
	if got := hooks.Build(sdkhook.End); got != "" || hooks.Has(sdkhook.End) || !hooks.Has(sdkhook.End, sdkhook.ShouldReconcile) {
		t.Errorf("unexpected hooks of type End: %q", got)
	}
	if none := (Hooks{}); none.Has(sdkhook.Types()...) {
		t.Error("the zero value has hooks")
	}
}

func TestWithoutContent(t *testing.T) {
	t.Parallel()
	if WithoutContent(nil) != nil {
		t.Error("nil is a target")
	}
	target := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "secret", "a": "b"}},
		Spec: v1alpha1.TargetSpec{
			Type: "x", Configuration: &runtime.RawExtension{Raw: []byte(`{"kubeconfig":"secret"}`)}, SecretRef: &v1alpha1.LocalSecretReference{Name: "s"},
		},
	}
	before := target.DeepCopy()
	want := &v1alpha1.Target{
		ObjectMeta: metav1.ObjectMeta{Name: "t", Annotations: map[string]string{"a": "b"}},
		Spec:       v1alpha1.TargetSpec{Type: "x", SecretRef: &v1alpha1.LocalSecretReference{Name: "s"}},
	}
	if diff := cmp.Diff(want, WithoutContent(target)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before, target); diff != "" {
		t.Errorf("the target itself was changed:\n%s", diff)
	}
}
