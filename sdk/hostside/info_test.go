package hostside

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/types/known/durationpb"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadInfoNamesAllProblems(t *testing.T) {
	t.Parallel()
	type info = deployerv1.GetInfoResponse
	named := func(name string) *info { return &info{Name: name, DeployItemTypes: []string{"type"}} }
	serving := func(types ...string) *info { return &info{Name: "a", DeployItemTypes: types} }
	hooking := func(hookType string, types ...string) *info {
		return &info{
			Name: "a", HookedDeployItemTypes: types, Capabilities: &deployerv1.Capabilities{HookTypes: []string{hookType}},
		}
	}
	timed := func(itemType string, timeout time.Duration) *info {
		in := serving("type")
		in.Timeouts = map[string]*durationpb.Duration{itemType: durationpb.New(timeout)}
		return in
	}
	types := make([]string, maxTypes+1)
	for i := range types {
		types[i] = fmt.Sprint("type", i)
	}
	long := strings.Repeat("t", MaxText+1)
	for title, test := range map[string]struct {
		in   *info
		want []string // nil if nothing is wrong
	}{
		"one letter": {named("a"), nil},
		"63 letters": {named(strings.Repeat("a", 63)), nil},
		"64 letters": {named(strings.Repeat("a", 64)), []string{"DNS label"}},
		"upper case": {named("Helm"), []string{`DNS label, but is "Helm"`}},
		// Rule (SECURITY.md#plugins): A plugin's name is bounded, and no path.
		"a path":           {named("../helm"), []string{"DNS label"}},
		"a newline":        {named("helm\n"), []string{"DNS label"}},
		"a dash at an end": {named("helm-"), []string{"DNS label"}},
		"huge name":        {named(strings.Repeat("\u0001", 1<<20)), []string{"DNS label"}},
		"empty":            {&info{}, []string{`DNS label, but is ""`, "no deploy item type"}},
		"nil":              {nil, []string{"DNS label", "no deploy item type"}},
		"long version": {
			&info{Name: "a", DeployItemTypes: []string{"type"}, Version: long}, []string{"version is longer"},
		},
		"long sdk version": {
			&info{Name: "a", DeployItemTypes: []string{"type"}, SdkVersion: long}, []string{"version is longer"},
		},
		"empty type":                    {serving(""), []string{`type "" that it serves is empty`}},
		"long type":                     {serving(long), []string{"longer than 253"}},
		"as many types as there may be": {serving(types[:maxTypes]...), nil},
		"too many types": {
			serving(slices.Repeat([]string{""}, 1<<20)...), []string{"more than 100 deploy item types"},
		},
		"misspelt hook type": {hooking("BeforeDeploy", "type"), []string{
			`hooks of the type "BeforeDeploy", which this host does not know; expected some of [Start DuringRes`,
		}},
		"timeouts": {timed("type", time.Second), nil},
		"a short timeout": {timed("type", time.Second-1), []string{
			`timeouts: deploy item type "type": expected a timeout from 1s to 168h0m0s, but found 999.999999ms`,
		}},
		"a long timeout":          {timed("type", 1000*time.Hour), []string{"but found 1000h0m0s"}},
		"a timeout of other type": {timed(long, time.Hour), []string{"expected a served deploy item type"}},
		"long hook type":          {hooking(strings.Repeat("h", 1<<20), "type"), []string{"which this host does not know"}},
		"nothing but hooks":       {hooking("End", "type"), nil},
		"hooks for nothing":       {hooking("End"), []string{"no deploy item type"}},
		"hooked types without hooks": {
			&info{Name: "a", DeployItemTypes: []string{"type"}, HookedDeployItemTypes: []string{"type"}},
			[]string{"but has no hooks"},
		},
		"nothing but hooked types": {
			&info{Name: "a", HookedDeployItemTypes: []string{"type"}}, []string{"no deploy item type", "but has no hooks"},
		},
		"empty hooked type":     {hooking("End", ""), []string{`type "" that it hooks is empty`}},
		"too many hooked types": {hooking("End", types...), []string{"it hooks more than 100 deploy item types"}},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			_, err := ReadInfo(test.in)
			if (err == nil) != (test.want == nil) {
				t.Fatalf("expected %q, but found: %v", test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) || len(err.Error()) > MaxMessage {
					t.Errorf("expected %q, but found %d bytes: %.200v", want, len(err.Error()), err)
				}
			}
		})
	}
}

// Types are sorted, each once. The hooks run for the plugin's own items unless it says otherwise, in the order of the
// flow. Package sdktest tests the reading of the other capabilities.
func TestReadInfo(t *testing.T) {
	t.Parallel()
	own := []v1alpha1.DeployItemType{"t", "u"}
	hooks := func(types ...string) Capabilities { return Capabilities{HookTypes: types} }
	for _, test := range []struct {
		types, hooked, hooks []string
		want                 Info
	}{
		{[]string{"u", "t", "u"}, nil, nil, Info{Types: own}},
		{
			[]string{"u", "t"}, nil, []string{"End", "BeforeDelete", "Start", "End"},
			Info{Types: own, HookedTypes: own, Capabilities: hooks("Start", "BeforeDelete", "End")},
		},
		{
			[]string{"t", "u"}, []string{"w", "u", "v", "w"}, []string{"End"},
			Info{Types: own, HookedTypes: []v1alpha1.DeployItemType{"u", "v", "w"}, Capabilities: hooks("End")},
		},
		{nil, []string{"u", "t"}, []string{"End"}, Info{HookedTypes: own, Capabilities: hooks("End")}},
	} {
		test.want.Name, test.want.Version, test.want.SDKVersion = "a", "v1", "0.1"
		got, err := ReadInfo(&deployerv1.GetInfoResponse{
			Name: "a", Version: "v1", SdkVersion: "0.1", DeployItemTypes: test.types, HookedDeployItemTypes: test.hooked,
			Capabilities: &deployerv1.Capabilities{HookTypes: test.hooks},
		})
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%+v: error %v, info (-want +got):\n%s", test, err, diff)
		}
	}
}
