package prune

import (
	"testing"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	"github.com/pergola-deploy/pergola/test/configtest"
)

// parse reads a list of groups in YAML.
func parse(t *testing.T, document string) (groups Groups, found []sdk.Problem) {
	t.Helper()
	var list []managedresource.DeletionGroup
	if err := yaml.UnmarshalStrict([]byte(document), &list); err != nil {
		t.Fatal(err)
	}
	groups, problems := ParseGroups(list, field.NewPath("groups"))
	for _, p := range problems {
		found = append(found, sdk.Problem{Field: p.Field, Message: p.ErrorBody()})
	}
	if len(found) == 0 && len(groups.list) != len(list) {
		t.Errorf("expected %d groups, but found %d", len(list), len(groups.list))
	}
	return groups, found
}

func TestParseGroups(t *testing.T) {
	t.Parallel()
	configtest.Suite{Files: "testdata/groups.yaml", Read: func(t *testing.T, document []byte, _ bool) []sdk.Problem {
		t.Helper()
		_, problems := parse(t, string(document))
		return problems
	}}.Run(t)
}

func TestPlace(t *testing.T) {
	t.Parallel()
	pod := object.Key{Kind: "Pod", Namespace: "ns", Name: "a"}
	role := object.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}
	crd := object.Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "a"}
	const roles, all = "rbac.authorization.k8s.io/v1, kind: ClusterRole", `, deleteAllResources: true, targetName: x`
	for name, c := range map[string]struct {
		resources string // of a group before the default ones
		key       object.Key
		want      int
	}{
		// Rule (manifest.md#deletion): By default, namespaced objects are deleted first.
		"default, namespaced": {"", pod, 0},
		// Rule (manifest.md#deletion): By default, cluster-scoped objects are deleted after namespaced ones.
		"default, cluster-scoped": {"", role, 1},
		// Rule (manifest.md#deletion): By default, CustomResourceDefinitions are deleted last.
		"default, definition": {"", crd, 2},
		// Rule (manifest.md#deletion): An object belongs to the first matching group.
		"kind":              {"[{apiVersion: v1, kind: Pod}]", pod, 0},
		"plural":            {"[{apiVersion: v1, kind: PODS}]", pod, 0},
		"another version":   {"[{apiVersion: v3, kind: Pod}]", pod, 0},
		"another API group": {"[{apiVersion: x/v1, kind: Pod}]", pod, 1},
		// Rule (manifest.md#deletion): A group selects by names.
		"another name":     {"[{apiVersion: v1, kind: Pod, names: [b]}]", pod, 1},
		"one of the names": {"[{apiVersion: v1, kind: Pod, names: [b, a]}]", pod, 0},
		// Rule (manifest.md#deletion): A group selects by namespaces.
		"another namespace": {"[{apiVersion: v1, kind: Pod, namespaces: [x]}]", pod, 1},
		"second resource":   {"[{apiVersion: v1, kind: Node}, {apiVersion: v1, kind: Pod}]", pod, 0},
		"no namespace":      {"[{apiVersion: " + roles + ", namespaces: [ns]}]", role, 2},
		"another Target":    {"[{apiVersion: v1, kind: Pod}]" + all, pod, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			groups := Groups{}.orDefault()
			if c.resources != "" {
				custom, problems := parse(t, "[{customResourceGroup: {resources: "+c.resources+"}}]")
				if len(problems) > 0 {
					t.Fatal(problems)
				}
				groups = append(custom.list, groups...)
			}
			if got := place(groups, c.key, c.key.Namespace != ""); got != c.want {
				t.Errorf("expected group %d, but found %d", c.want, got)
			}
		})
	}
}

// Rule (manifest.md#deletion, /empty): The group `empty` takes nothing.
// Rule (manifest.md#deletion, /cluster-scoped-resources): An object without a group stays on the target.
func TestNoPlace(t *testing.T) {
	t.Parallel()
	for _, predefined := range []string{"empty", "cluster-scoped-resources"} {
		t.Run(predefined, func(t *testing.T) {
			t.Parallel()
			groups, _ := parse(t, "[{predefinedResourceGroup: {type: "+predefined+"}}]")
			if got := place(groups.orDefault(), object.Key{Kind: "Pod", Namespace: "ns", Name: "a"}, true); got != -1 {
				t.Errorf("expected no group, but found %d", got)
			}
		})
	}
}

// TestBelongsToCluster: deleteAllResources would never come to its end with objects that Kubernetes creates again.
func TestBelongsToCluster(t *testing.T) {
	t.Parallel()
	for key, want := range map[object.Key]bool{
		{Kind: "ServiceAccount", Namespace: "ns", Name: "default"}:  true,
		{Kind: "ServiceAccount", Namespace: "ns", Name: "shop"}:     false,
		{Kind: "Service", Namespace: "default", Name: "kubernetes"}: true,
		{Kind: "Service", Namespace: "ns", Name: "kubernetes"}:      false,
		{Kind: "Service", Namespace: "default", Name: "shop"}:       false,
	} {
		if got := belongsToCluster(key); got != want {
			t.Errorf("%s: expected %t, but found %t", key, want, got)
		}
	}
}
