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
		Name: "helm", Version: "v1", SdkVersion: "0.1", DeployItemTypes: []string{"b", "a", "b"},
		Capabilities: &deployerv1.Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, HookTypes: []string{"End"},
		},
	}
	want := Info{
		Name: "helm", Version: "v1", SDKVersion: "0.1", Types: []v1alpha1.DeployItemType{"b", "a"}, // each once, in their order
		Capabilities: Capabilities{
			Abort: true, ForceReconcile: true, Render: true, Validate: true, Configure: true, Watch: true, HookTypes: []string{"End"},
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
		"one letter":       {"the shortest name", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types}, nil},
		"63 letters":       {"the longest name", &deployerv1.GetInfoResponse{Name: strings.Repeat("a", 63), DeployItemTypes: types}, nil},
		"64 letters":       {"longer than a DNS label", &deployerv1.GetInfoResponse{Name: strings.Repeat("a", 64), DeployItemTypes: types}, []string{"DNS label"}},
		"upper case":       {"no DNS label", &deployerv1.GetInfoResponse{Name: "Helm", DeployItemTypes: types}, []string{`DNS label, but is "Helm"`}},
		"a path":           {"no DNS label", &deployerv1.GetInfoResponse{Name: "../helm", DeployItemTypes: types}, []string{"DNS label"}},
		"a newline":        {"the end of a line is not the end of a name", &deployerv1.GetInfoResponse{Name: "helm\n", DeployItemTypes: types}, []string{"DNS label"}},
		"a dash at an end": {"no DNS label", &deployerv1.GetInfoResponse{Name: "helm-", DeployItemTypes: types}, []string{"DNS label"}},
		"empty":            {"everything is told at once", &deployerv1.GetInfoResponse{}, []string{`DNS label, but is ""`, "no deploy item type"}},
		"nil":              {"an answer without content", nil, []string{"DNS label", "no deploy item type"}},
		"empty type": {
			"a type has a name", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: []string{""}}, []string{`type "" is empty`},
		},
		"long type": {
			"it ends up in statuses", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: []string{strings.Repeat("t", maxText+1)}}, []string{"longer than 253"},
		},
		"long version": {
			"it ends up in statuses", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types, Version: strings.Repeat("v", maxText+1)}, []string{"version is longer"},
		},
		"long sdk version": {
			"it ends up in logs", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: types, SdkVersion: strings.Repeat("v", maxText+1)}, []string{"version is longer"},
		},
		"as many types as there may be": {"a bound is no mistake", &deployerv1.GetInfoResponse{Name: "a", DeployItemTypes: manyTypes(maxTypes)}, nil},
		"too many types": {
			"their problems are not told one by one", &deployerv1.GetInfoResponse{Name: "A", DeployItemTypes: slices.Repeat([]string{""}, 1<<20)}, []string{"DNS label", "more than 100 deploy item types"},
		},
		"too many hook types": {
			"they are kept in memory", &deployerv1.GetInfoResponse{
				Name: "a", DeployItemTypes: types, Capabilities: &deployerv1.Capabilities{HookTypes: slices.Repeat([]string{"Start"}, maxTypes+1)},
			}, []string{"more than 100 types of hooks"},
		},
		"long hook type": {
			"it is shown", &deployerv1.GetInfoResponse{
				Name: "a", DeployItemTypes: types, Capabilities: &deployerv1.Capabilities{HookTypes: []string{strings.Repeat("h", maxText+1)}},
			}, []string{"longer than 253 bytes"},
		},
		"huge name": {
			"what is quoted is cut", &deployerv1.GetInfoResponse{Name: strings.Repeat("\u0001", 1<<20), DeployItemTypes: types}, []string{"DNS label"},
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

func manyTypes(n int) []string {
	types := make([]string, 0, n)
	for i := range n {
		types = append(types, fmt.Sprintf("type%d", i))
	}
	return types
}
