package sdk

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

// deployerWith is a deployer with hooks.
type deployerWith struct{ hooks hook.Hooks }

var _ Hooker = deployerWith{}

func (deployerWith) Reconcile(context.Context, *Request) (*Response, error) { return nil, nil }

func (deployerWith) Delete(context.Context, *Request) (*Response, error) { return nil, nil }

func (d deployerWith) Hooks() hook.Hooks { return d.hooks }

// about are the beginnings of the lines of an error: what each is about.
func about(err error) []string {
	var list []string
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			option, _, _ := strings.Cut(line, ":")
			list = append(list, option)
		}
	}
	return list
}

// calling is a hook function without an opinion.
func calling(f func()) hook.Func {
	return func(context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type) (*hook.Result, error) {
		f()
		return nil, nil
	}
}

func hooksFor(hookTypes ...hook.Type) hook.Hooks {
	return hook.Hooks{}.RegisterHook(calling(func() {}), hookTypes...)
}

func TestNames(t *testing.T) {
	t.Parallel()
	for name, valid := range map[string]bool{
		"hello": true, strings.Repeat("a", 63): true, strings.Repeat("a", 64): false, "": false, "Hello": false, "a.b": false,
		"a\n": false, "-a": false,
	} {
		if _, err := deployerPlugin(deployerWith{}, []Option{Name(name), Types("a")}); (err == nil) != valid {
			t.Errorf("%q: found %v", name, err)
		}
	}
}

func TestOptions(t *testing.T) {
	t.Parallel()
	name, types, hooked := Name("hello"), Types("a"), HookedTypes("b")
	for _, tc := range []struct {
		reason   string
		deployer Deployer // nil for a plugin with nothing but hooks
		hooks    hook.Hooks
		opts     []Option
		want     []string // the beginnings of the errors
	}{
		{"name and types are enough", deployerWith{}, nil, []Option{name, types}, nil},
		{
			"limits of calls", deployerWith{}, nil,
			[]Option{name, types, Timeout("a", time.Hour), MaxCalls(1), MaxCallsPerTarget(1)}, nil,
		},
		{
			"wrong limits", deployerWith{}, nil,
			[]Option{name, types, Timeout("b", time.Hour), MaxCalls(0), MaxCallsPerTarget(-1)},
			[]string{"sdk.Timeout", "sdk.MaxCalls", "sdk.MaxCallsPerTarget"},
		},
		{
			"a timeout that nobody means", deployerWith{}, nil, []Option{name, types, Timeout("a", time.Second-1)},
			[]string{"sdk.Timeout"},
		},
		{
			"hooks have other limits", nil, hooksFor(hook.Start), []Option{name, hooked, MaxCalls(1)},
			[]string{"sdk.Timeout, sdk.MaxCalls, sdk.MaxCallsPerTarget"},
		},
		{"everything that is missing is said at once", deployerWith{}, nil, nil, []string{"sdk.Name", "sdk.Types"}},
		{"hooks may be for others' items", deployerWith{hooksFor(hook.Start)}, nil, []Option{name, types, hooked}, nil},
		{"nothing would run for them", deployerWith{}, nil, []Option{name, types, hooked}, []string{"sdk.HookedTypes"}},
		{
			"a schedule needs its hook", deployerWith{hooksFor(hook.End)}, nil, []Option{name, types, ScheduleInConfig()},
			[]string{"sdk.ScheduleInConfig"},
		},
		{
			"which may be nothing else", nil, hooksFor(hook.ShouldReconcile), []Option{name, hooked, ScheduleInConfig()}, nil,
		},
		{"it would never run", deployerWith{hooksFor("start")}, nil, []Option{name, types}, []string{"hook.Hooks"}},
		{"types have names", deployerWith{}, nil, []Option{name, Types("", "a")}, []string{"sdk.Types"}},

		{"name, hooks and whose items they are for", nil, hooksFor(hook.End), []Option{name, hooked}, nil},
		{"types add up", nil, hooksFor(hook.End), []Option{name, hooked, HookedTypes("c", "d")}, nil},
		{"all that is missing is said at once", nil, nil, nil, []string{"sdk.Name", "sdk.HookedTypes", "sdk.ServeHooks"}},
		{"there is no function", nil, hook.Hooks{hook.End: nil}, []Option{name, hooked}, []string{"sdk.ServeHooks"}},
		{"nobody would deploy them", nil, hooksFor(hook.End), []Option{name, hooked, types}, []string{"sdk.Types"}},
		{
			"there is no call that they would come with", nil, hooksFor(hook.End),
			[]Option{name, hooked, ContextCredentials(), ContextOCMConfig(), HostClusterAccess()},
			[]string{"sdk.ContextCredentials", "sdk.ContextOCMConfig", "sdk.HostClusterAccess"},
		},
		{"no hook would use it", deployerWith{}, nil, []Option{name, types, HookTargets()}, []string{"sdk.HookTargets"}},
		{"types have names", nil, hooksFor(hook.End), []Option{name, HookedTypes("")}, []string{"sdk.HookedTypes"}},
		{"what is misspelt is not missing", nil, hooksFor("BeforeDeploy"), []Option{name, hooked}, []string{"hook.Hooks"}},
		{"a function can be called", nil, hook.Hooks{hook.End: {nil}}, []Option{name, hooked}, []string{"hook.Hooks"}},
	} {
		var p *plugin
		var err error
		if tc.deployer != nil {
			p, err = deployerPlugin(tc.deployer, tc.opts)
		} else {
			p, err = hooksPlugin(tc.hooks, tc.opts)
		}
		if diff := cmp.Diff(tc.want, about(err)); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
		}
		if p.Info.GetVersion() != "unknown" {
			t.Errorf("%s: expected the version unknown, but found %q", tc.reason, p.Info.GetVersion())
		}
	}
	if _, err := deployerPlugin(nil, []Option{name, types}); cmp.Diff([]string{"sdk.Serve"}, about(err)) != "" {
		t.Errorf("expected that the deployer is missing, but found: %v", err)
	}
}
