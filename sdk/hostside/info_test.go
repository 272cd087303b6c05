package hostside

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestReadInfo(t *testing.T) {
	t.Parallel()
	in := &deployerv1.GetInfoResponse{
		Name: "helm", Version: "v1", SdkVersion: "0.1", DeployItemTypes: []string{"b", "c", "a", "b"},
		Capabilities: &deployerv1.Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true,
			HookTypes:          []string{"End"},
			ContextCredentials: true, OcmConfig: true, HostCluster: true, Collect: true,
		},
	}
	want := Info{
		Name: "helm", Version: "v1", SDKVersion: "0.1", Types: []v1alpha1.DeployItemType{"a", "b", "c"},
		// each once, whatever their order
		HookedTypes: []v1alpha1.DeployItemType{"a", "b", "c"}, // for want of others
		Capabilities: Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true,
			HookTypes:          []string{"End"},
			ContextCredentials: true, ContextOCMConfig: true, HostCluster: true, Collect: true,
		},
	}
	got, err := ReadInfo(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

func TestReadInfoNamesAllProblems(t *testing.T) {
	t.Parallel()
	named := func(name string) *deployerv1.GetInfoResponse {
		return &deployerv1.GetInfoResponse{Name: name, DeployItemTypes: []string{"type"}}
	}
	with := func(change func(*deployerv1.GetInfoResponse)) *deployerv1.GetInfoResponse {
		in := named("a")
		change(in)
		return in
	}
	serving := func(types ...string) *deployerv1.GetInfoResponse {
		return &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types}
	}
	hooking := func(hookType string, types ...string) *deployerv1.GetInfoResponse {
		return &deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: types, Capabilities: hooksOf(hookType)}
	}
	long := strings.Repeat("t", MaxText+1)
	for title, test := range map[string]struct {
		in   *deployerv1.GetInfoResponse
		want []string // nil if nothing is wrong
	}{
		"one letter":       {named("a"), nil},
		"63 letters":       {named(strings.Repeat("a", 63)), nil},
		"64 letters":       {named(strings.Repeat("a", 64)), []string{"DNS label"}},
		"upper case":       {named("Helm"), []string{`DNS label, but is "Helm"`}},
		"a path":           {named("../helm"), []string{"DNS label"}},
		"a newline":        {named("helm\n"), []string{"DNS label"}},
		"a dash at an end": {named("helm-"), []string{"DNS label"}},
		"huge name":        {named(strings.Repeat("\u0001", 1<<20)), []string{"DNS label"}},
		"empty":            {&deployerv1.GetInfoResponse{}, []string{`DNS label, but is ""`, "no deploy item type"}},
		"nil":              {nil, []string{"DNS label", "no deploy item type"}},
		"long version": {with(func(in *deployerv1.GetInfoResponse) { in.Version = long }),
			[]string{"version is longer"}},
		"long sdk version": {with(func(in *deployerv1.GetInfoResponse) { in.SdkVersion = long }),
			[]string{"version is longer"}},
		"empty type":                    {serving(""), []string{`type "" that it serves is empty`}},
		"long type":                     {serving(long), []string{"longer than 253"}},
		"as many types as there may be": {serving(manyTypes(maxTypes)...), nil},
		"too many types": {serving(slices.Repeat([]string{""}, 1<<20)...),
			[]string{"more than 100 deploy item types"}},
		"misspelt hook type": {hooking("BeforeDeploy", "type"), []string{
			`hooks of the type "BeforeDeploy", which this host does not know; ` +
				`expected some of [Start DuringResponsibilityCheck`}},
		"long hook type":    {hooking(strings.Repeat("h", 1<<20), "type"), []string{"which this host does not know"}},
		"nothing but hooks": {hooking("End", "type"), nil},
		"hooks for nothing": {hooking("End"), []string{"no deploy item type"}},
		"hooked types without hooks": {with(func(in *deployerv1.GetInfoResponse) {
			in.HookedDeployItemTypes = []string{"type"}
		}), []string{"but has no hooks"}},
		"nothing but hooked types": {&deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: []string{"type"}},
			[]string{"no deploy item type", "but has no hooks"}},
		"empty hooked type": {hooking("End", ""), []string{`type "" that it hooks is empty`}},
		"too many hooked types": {
			hooking("End", manyTypes(maxTypes+1)...), []string{"it hooks more than 100 deploy item types"},
		},
	} {
		t.Run(title, func(t *testing.T) {
			t.Parallel()
			_, err := ReadInfo(test.in)
			if (err == nil) != (test.want == nil) {
				t.Fatalf("expected %q, but found: %v", test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("expected %q, but found: %v", want, err)
				}
			}
			if err != nil && len(err.Error()) > MaxMessage {
				t.Errorf("the error has %d bytes", len(err.Error()))
			}
		})
	}
}

func hooksOf(types ...string) *deployerv1.Capabilities {
	return &deployerv1.Capabilities{HookTypes: types}
}

// The hooks run for the plugin's own items unless it says otherwise, and are in the order of the flow.
func TestHookedTypes(t *testing.T) {
	t.Parallel()
	own := []v1alpha1.DeployItemType{"t", "u"}
	for _, test := range []struct {
		types, hooked, hooks []string
		want                 Info
	}{
		{[]string{"t", "u"}, nil, nil, Info{Types: own}},
		{[]string{"u", "t"}, nil, []string{"End", "BeforeDelete", "Start", "End"}, Info{Types: own, HookedTypes: own,
			Capabilities: Capabilities{HookTypes: []string{"Start", "BeforeDelete", "End"}}}},
		{[]string{"t", "u"}, []string{"w", "u", "v", "w"}, []string{"End"}, Info{Types: own,
			HookedTypes: []v1alpha1.DeployItemType{"u", "v", "w"}, Capabilities: Capabilities{HookTypes: []string{"End"}}}},
		{nil, []string{"u", "t"}, []string{"End"}, Info{HookedTypes: own,
			Capabilities: Capabilities{HookTypes: []string{"End"}}}},
	} {
		test.want.Name = "a"
		got, err := ReadInfo(&deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: test.types,
			HookedDeployItemTypes: test.hooked, Capabilities: hooksOf(test.hooks...)})
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%+v: error %v, info (-want +got):\n%s", test, err, diff)
		}
	}
}

func manyTypes(n int) []string {
	types := make([]string, 0, n)
	for i := range n {
		types = append(types, fmt.Sprintf("type%d", i))
	}
	return types
}
