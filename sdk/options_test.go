package sdk

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/hook"
)

func TestOptions(t *testing.T) {
	t.Parallel()
	types := Types("example.org/hello")
	tests := map[string]struct {
		reason string
		opts   []Option
		hooks  hook.Hooks
		// want are the beginnings of the errors.
		want []string
	}{
		"Complete": {reason: "name and types are enough", opts: []Option{Name("hello"), types}},
		"LongestName": {
			reason: "a DNS label has at most 63 characters", opts: []Option{Name(strings.Repeat("a", 63)), types},
		},
		"TooLong": {
			reason: "a DNS label has at most 63 characters",
			opts:   []Option{Name(strings.Repeat("a", 64)), types}, want: []string{"sdk.Name"},
		},
		"Nothing": {
			reason: "everything that is missing is said at once", want: []string{"sdk.Name", "sdk.Types"},
		},
		"Capitals": {
			reason: "a DNS label has none", opts: []Option{Name("Hello"), types}, want: []string{"sdk.Name"},
		},
		"Newline": {
			reason: "the whole name counts", opts: []Option{Name("a\n"), types}, want: []string{"sdk.Name"},
		},
		"HyphenAtStart": {
			reason: "a label begins with a letter or digit", opts: []Option{Name("-a"), types},
			want: []string{"sdk.Name"},
		},
		"HookedTypes": {
			reason: "hooks may be for others' items", opts: []Option{Name("hello"), types, HookedTypes("b")},
			hooks: hooksFor(hook.Start),
		},
		"NoHooks": {
			reason: "there is nothing that would run for them",
			opts:   []Option{Name("hello"), types, HookedTypes("b")}, want: []string{"sdk.HookedTypes"},
		},
		"UnknownHook": {
			reason: "a misspelt type would never be passed",
			opts:   []Option{Name("hello"), types}, hooks: hooksFor("start"), want: []string{"hook.Hooks"},
		},
		"EmptyTypes": {
			reason: "each is said", opts: []Option{Name("-"), Types("", "a", "")},
			want: []string{"sdk.Name", "sdk.Types"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := deployerPlugin(deployerWith{tc.hooks}, tc.opts)
			if diff := cmp.Diff(tc.want, blamed(err)); diff != "" {
				t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
			}
		})
	}
	if _, err := deployerPlugin(nil, []Option{Name("hello"), types}); !slices.Equal(blamed(err), []string{"sdk.Serve"}) {
		t.Errorf("expected that the deployer is missing, but found: %v", err)
	}
}

// deployerWith is a deployer with hooks.
type deployerWith struct{ hooks hook.Hooks }

var _ Hooker = deployerWith{}

func (deployerWith) Reconcile(context.Context, *Request) (*Response, error) { return nil, nil }

func (deployerWith) Delete(context.Context, *Request) (*Response, error) { return nil, nil }

func (d deployerWith) Hooks() hook.Hooks { return d.hooks }

// blamed are the beginnings of the lines of an error: what each is about.
func blamed(err error) []string {
	var list []string
	if err != nil {
		for line := range strings.Lines(err.Error()) {
			option, _, _ := strings.Cut(line, ":")
			list = append(list, option)
		}
	}
	return list
}

func hooksFor(types ...hook.Type) hook.Hooks {
	return hook.Hooks{}.RegisterHook(func(
		context.Context, *v1alpha1.DeployItem, *v1alpha1.Target, hook.Type,
	) (*hook.Result, error) {
		return nil, nil
	}, types...)
}

func TestOptionsOfHooks(t *testing.T) {
	t.Parallel()
	name, hooked := Name("hello"), HookedTypes("example.org/hello")
	for _, tc := range []struct {
		reason string
		hooks  hook.Hooks
		opts   []Option
		want   []string
	}{
		{"name, hooks and whose items they are for", hooksFor(hook.End), []Option{name, hooked}, nil},
		{"types add up", hooksFor(hook.End), []Option{name, hooked, HookedTypes("b", "c")}, nil},
		{
			"everything that is missing is said at once", nil, nil,
			[]string{"sdk.Name", "sdk.HookedTypes", "sdk.ServeHooks"},
		},
		{
			"a type without a function has no hook", hook.Hooks{hook.End: nil}, []Option{name, hooked},
			[]string{"sdk.ServeHooks"},
		},
		{"nobody would deploy them", hooksFor(hook.End), []Option{name, hooked, Types("a")}, []string{"sdk.Types"}},
		{
			"there is no call that they would come with", hooksFor(hook.End),
			[]Option{name, hooked, ContextCredentials()}, []string{"sdk.ContextCredentials"},
		},
		{
			"nor would it come with that", hooksFor(hook.End), []Option{name, hooked, HostClusterAccess()},
			[]string{"sdk.HostClusterAccess"},
		},
		{"types have names", hooksFor(hook.End), []Option{name, HookedTypes("")}, []string{"sdk.HookedTypes"}},
		{
			"a misspelt type would never be passed", hooksFor("BeforeDeploy", hook.End), []Option{name, hooked},
			[]string{"hook.Hooks"},
		},
		{"what is misspelt is not missing", hooksFor("BeforeDeploy"), []Option{name, hooked}, []string{"hook.Hooks"}},
		{"a function can be called", hook.Hooks{hook.End: {nil}}, []Option{name, hooked}, []string{"hook.Hooks"}},
	} {
		p, err := hooksPlugin(tc.hooks, tc.opts)
		if diff := cmp.Diff(tc.want, blamed(err)); diff != "" {
			t.Errorf("%s: errors (-want +got):\n%s", tc.reason, diff)
		}
		if err == nil && !slices.Equal(p.hookTypes(), []string{"End"}) {
			t.Errorf("%s: expected a hook of type End, but found %q", tc.reason, p.hookTypes())
		}
	}
}

func TestOptionsDefaults(t *testing.T) {
	t.Parallel()
	p := newPlugin([]Option{Name("hello"), Types("a"), Types("b", "c")})
	if p.version != "unknown" || len(p.types) != 3 {
		t.Errorf("expected version unknown and 3 types, but found %q, %v", p.version, p.types)
	}
}
