package plugin

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	deployerv1 "github.com/pergola-deploy/pergola/proto/pergola/deployer/v1"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

func TestInfoFromWire(t *testing.T) {
	t.Parallel()
	in := &deployerv1.GetInfoResponse{
		Name: "helm", Version: "v1", SdkVersion: "0.1", DeployItemTypes: []string{"b", "c", "a", "b"},
		Capabilities: &deployerv1.Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true,
			HookTypes:          []string{"End"},
			ContextCredentials: true, HostCluster: true, Collect: true,
		},
	}
	want := Info{
		Name: "helm", Version: "v1", SDKVersion: "0.1", Types: []v1alpha1.DeployItemType{"a", "b", "c"},
		// each once, whatever their order
		HookedTypes: []v1alpha1.DeployItemType{"a", "b", "c"}, // for want of others
		Capabilities: Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, Diff: true,
			HookTypes:          []string{"End"},
			ContextCredentials: true, HostCluster: true, Collect: true,
		},
	}
	got, err := infoFromWire(in)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
}

func TestInfoFromWireSaysWhatIsWrong(t *testing.T) {
	t.Parallel()
	types := []string{"type"}
	for name, test := range map[string]struct {
		reason string
		in     *deployerv1.GetInfoResponse
		want   []string // nil if nothing is wrong
	}{
		"one letter": {"the shortest name", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types}, nil},
		"63 letters": {"the longest name", &deployerv1.GetInfoResponse{Name: strings.Repeat("a", 63),
			DeployItemTypes: types}, nil},
		"64 letters": {"longer than a DNS label", &deployerv1.GetInfoResponse{Name: strings.Repeat("a", 64),
			DeployItemTypes: types}, []string{"DNS label"}},
		"upper case": {"no DNS label", &deployerv1.GetInfoResponse{Name: "Helm", DeployItemTypes: types},
			[]string{`DNS label, but is "Helm"`}},
		"a path": {"no DNS label", &deployerv1.GetInfoResponse{Name: "../helm", DeployItemTypes: types},
			[]string{"DNS label"}},
		"a newline": {"the end of a line is not the end of a name",
			&deployerv1.GetInfoResponse{Name: "helm\n", DeployItemTypes: types}, []string{"DNS label"}},
		"a dash at an end": {"no DNS label", &deployerv1.GetInfoResponse{Name: "helm-", DeployItemTypes: types},
			[]string{"DNS label"}},
		"empty": {"everything is told at once", &deployerv1.GetInfoResponse{},
			[]string{`DNS label, but is ""`, "no deploy item type"}},
		"nil": {"an answer without content", nil, []string{"DNS label", "no deploy item type"}},
		"empty type": {
			"a type has a name", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: []string{""}},
			[]string{`type "" that it serves is empty`},
		},
		"long type": {
			"it ends up in statuses", &deployerv1.GetInfoResponse{Name: "a",
				DeployItemTypes: []string{strings.Repeat("t", maxText+1)}}, []string{"longer than 253"},
		},
		"long version": {
			"it ends up in statuses", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types,
				Version: strings.Repeat("v", maxText+1)}, []string{"version is longer"},
		},
		"long sdk version": {
			"it ends up in logs", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types,
				SdkVersion: strings.Repeat("v", maxText+1)}, []string{"version is longer"},
		},
		"as many types as there may be": {"a bound is no mistake", &deployerv1.GetInfoResponse{Name: "a",
			DeployItemTypes: manyTypes(maxTypes)}, nil},
		"too many types": {
			"their problems are not told one by one", &deployerv1.GetInfoResponse{Name: "A",
				DeployItemTypes: slices.Repeat([]string{""}, 1<<20)}, []string{"DNS label", "more than 100 deploy item types"},
		},
		"misspelt hook types": {
			"they would never run; one says enough", &deployerv1.GetInfoResponse{
				Name: "a", DeployItemTypes: types, Capabilities: hooksOf(append([]string{"Start", "BeforeDeploy"},
					manyTypes(1000)...)...),
			}, []string{`hooks of the type "BeforeDeploy", which this host does not know; expected some of [Start DuringResponsibilityCheck`},
		},
		"long hook type": {
			"what is quoted is cut", &deployerv1.GetInfoResponse{
				Name: "a", DeployItemTypes: types, Capabilities: hooksOf(strings.Repeat("h", 1<<20)),
			}, []string{"which this host does not know"},
		},
		"nothing but hooks": {"it need not serve anything", &deployerv1.GetInfoResponse{Name: "a",
			HookedDeployItemTypes: types, Capabilities: hooksOf("End")}, nil},
		"hooks for nothing": {"nobody knows whose items", &deployerv1.GetInfoResponse{Name: "a",
			Capabilities: hooksOf("End")}, []string{"no deploy item type"}},
		"hooked types without hooks": {
			"nothing would run for them", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types,
				HookedDeployItemTypes: types}, []string{"but has no hooks"},
		},
		"nothing but hooked types": {
			"it does nothing", &deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: types},
			[]string{"no deploy item type", "but has no hooks"},
		},
		"empty hooked type": {
			"a type has a name", &deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: []string{""},
				Capabilities: hooksOf("End")}, []string{`type "" that it hooks is empty`},
		},
		"too many hooked types": {
			"a bound", &deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: manyTypes(maxTypes + 1),
				Capabilities: hooksOf("End")}, []string{"it hooks more than 100 deploy item types"},
		},
		"huge name": {
			"what is quoted is cut", &deployerv1.GetInfoResponse{Name: strings.Repeat("\u0001", 1<<20), DeployItemTypes: types},
			[]string{"DNS label"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := infoFromWire(test.in)
			if (err == nil) != (test.want == nil) {
				t.Fatalf("%s: expected %q, but found: %v", test.reason, test.want, err)
			}
			for _, want := range test.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("%s: expected %q, but found: %v", test.reason, want, err)
				}
			}
			if err != nil && len(err.Error()) > maxMessage {
				t.Errorf("%s: the error has %d bytes", test.reason, len(err.Error()))
			}
		})
	}
}

func hooksOf(types ...string) *deployerv1.Capabilities {
	return &deployerv1.Capabilities{HookTypes: types}
}

func TestHooksFromWire(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		reason string
		in     *deployerv1.GetInfoResponse
		want   Info
	}{
		{
			"no hooks", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: []string{"t"}},
			Info{Name: "a", Types: []v1alpha1.DeployItemType{"t"}},
		},
		{
			"hooks run for the plugin's own items unless it says otherwise, and are in the order of the flow",
			&deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: []string{"u", "t"},
				Capabilities: hooksOf("End", "BeforeDelete", "Start", "End")},
			Info{
				Name: "a", Types: []v1alpha1.DeployItemType{"t", "u"}, HookedTypes: []v1alpha1.DeployItemType{"t", "u"},
				Capabilities: Capabilities{HookTypes: []string{"Start", "BeforeDelete", "End"}},
			},
		},
		{
			"its own types are hooked only if it says so", &deployerv1.GetInfoResponse{
				Name: "a", DeployItemTypes: []string{"t", "u"}, HookedDeployItemTypes: []string{"w", "u", "v", "w"},
				Capabilities: hooksOf("End"),
			},
			Info{
				Name: "a", Types: []v1alpha1.DeployItemType{"t", "u"}, HookedTypes: []v1alpha1.DeployItemType{"u", "v", "w"},
				Capabilities: Capabilities{HookTypes: []string{"End"}},
			},
		},
		{
			"nothing but hooks", &deployerv1.GetInfoResponse{Name: "a", HookedDeployItemTypes: []string{"u", "t"},
				Capabilities: hooksOf("End")},
			Info{Name: "a", HookedTypes: []v1alpha1.DeployItemType{"t", "u"},
				Capabilities: Capabilities{HookTypes: []string{"End"}}},
		},
	} {
		got, err := infoFromWire(test.in)
		if diff := cmp.Diff(test.want, got); diff != "" || err != nil {
			t.Errorf("%s: error %v, info (-want +got):\n%s", test.reason, err, diff)
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

// The first problems of a configuration tell enough.
func TestProblemsFromWire(t *testing.T) {
	t.Parallel()
	problem := &deployerv1.Problem{Field: strings.Repeat("f", 1000), Message: strings.Repeat("m", 1<<20)}
	err := problemsFromWire(slices.Repeat([]*deployerv1.Problem{problem}, maxProblems+3))
	if err == nil || !strings.HasSuffix(err.Error(), "\nand 3 more") || len(err.Error()) > 2*maxProblems*maxMessage {
		t.Errorf("expected the first problems, cut, but found %.1000v", err)
	}
	if err := problemsFromWire(nil); err != nil {
		t.Errorf("expected no problem, but found %v", err)
	}
}

// A plugin that lists its types in another order after a restart is the same one.
func TestRecognizeTypesInAnyOrder(t *testing.T) {
	t.Parallel()
	types := []string{"a", "b"}
	p := &Plugin{}
	for range 2 {
		info, err := infoFromWire(&deployerv1.GetInfoResponse{Name: "plugin", DeployItemTypes: types})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.recognize(&info); err != nil {
			t.Errorf("%q: %v", types, err)
		}
		p.info = &info
		slices.Reverse(types)
	}
}
