package prune

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

func TestParseGroups(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		reason, groups string
		problems       []string
	}{
		"all kinds of groups": {
			reason: "everything that Landscaper documents is fine",
			groups: `[{"predefinedResourceGroup":{"type":"namespaced-resources","forceDelete":true}},
				{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}},{"predefinedResourceGroup":{"type":"crds"}},
				{"predefinedResourceGroup":{"type":"empty"}},
				{"customResourceGroup":{"resources":[{"apiVersion":"apps/v1","kind":"deployments","names":["a"],"namespaces":["b"]}],
				"deleteAllResources":true,"forceDelete":true,"targetName":"other"}}]`,
		},
		"nothing": {reason: "a group selects something", groups: `[{}]`, problems: []string{
			"groups[0]: Required value: expected predefinedResourceGroup or customResourceGroup",
		}},
		"both": {
			reason: "the order of the two would be unclear",
			groups: `[{"predefinedResourceGroup":{"type":"crds"},"customResourceGroup":{}}]`,
			problems: []string{
				"groups[0].customResourceGroup: Forbidden: cannot be used together with predefinedResourceGroup; make two groups of it",
			},
		},
		"types": {
			reason: "problems of all groups are reported at once",
			groups: `[{"predefinedResourceGroup":{}},{"predefinedResourceGroup":{"type":"CRDs"}}]`,
			problems: []string{
				`groups[0].predefinedResourceGroup.type: Unsupported value: "": supported values: "namespaced-resources", "cluster-scoped-resources", "crds", "empty"`,
				`groups[1].predefinedResourceGroup.type: Unsupported value: "CRDs": supported values: "namespaced-resources", "cluster-scoped-resources", "crds", "empty"`,
			},
		},
		"resources": {
			reason: "a kind is needed to find anything",
			groups: `[{"customResourceGroup":{}},{"customResourceGroup":{"resources":[{},{"apiVersion":"a/b/c","kind":"K","names":[""],"namespaces":["x",""]}]}}]`,
			problems: []string{
				"groups[0].customResourceGroup.resources: Required value: expected the kinds of the objects to delete",
				"groups[1].customResourceGroup.resources[0].apiVersion: Required value",
				"groups[1].customResourceGroup.resources[0].kind: Required value",
				`groups[1].customResourceGroup.resources[1].apiVersion: Invalid value: "a/b/c": expected a form like "v1" or "apps/v1"`,
				"groups[1].customResourceGroup.resources[1].names[0]: Required value: cannot be empty",
				"groups[1].customResourceGroup.resources[1].namespaces[1]: Required value: cannot be empty",
			},
		},
		"targets": {
			reason: "there are only unmanaged objects on other Targets",
			groups: `[{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"Pod"}],"targetName":"other"}},
				{"customResourceGroup":{"resources":[{"apiVersion":"v1","kind":"Pod"}],"targetName":"","deleteAllResources":true}}]`,
			problems: []string{
				"groups[0].customResourceGroup.targetName: Forbidden: needs deleteAllResources: nothing is managed on other Targets",
				`groups[1].customResourceGroup.targetName: Invalid value: "": expected the name of a Target; leave it out for the deploy item's own`,
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var groups []managedresource.DeletionGroup
			if err := json.Unmarshal([]byte(c.groups), &groups); err != nil {
				t.Fatal(err)
			}
			parsed, problems := ParseGroups(groups, field.NewPath("groups"))
			var got []string
			for _, p := range problems {
				got = append(got, p.Error())
			}
			if diff := cmp.Diff(c.problems, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", c.reason, diff)
			}
			if len(problems) == 0 && len(parsed.list) != len(groups) {
				t.Errorf("%s: expected %d groups, but found %d", c.reason, len(groups), len(parsed.list))
			}
		})
	}
}

func TestPlace(t *testing.T) {
	t.Parallel()
	const all = `{"predefinedResourceGroup":{"type":"namespaced-resources"}},
		{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}},{"predefinedResourceGroup":{"type":"crds"}}`
	custom := func(fields string) string { return `[{"customResourceGroup":{` + fields + `}},` + all + `]` }
	pod := subject{object.Key{Kind: "Pod", Namespace: "ns", Name: "a"}, true}
	role := subject{object.Key{Group: "rbac.authorization.k8s.io", Kind: "ClusterRole", Name: "a"}, false}
	crd := subject{object.Key{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: "a"}, false}
	for name, c := range map[string]struct {
		reason, groups string
		subject        subject
		want           int
	}{
		// Rule (manifest.md#deletion): By default, namespaced objects are deleted first.
		"default, namespaced": {"namespaced objects come first", `[]`, pod, 0},
		// Rule (manifest.md#deletion): By default, cluster-scoped objects are deleted after namespaced ones.
		"default, cluster-scoped": {"then cluster-scoped ones", `[]`, role, 1},
		// Rule (manifest.md#deletion): By default, CustomResourceDefinitions are deleted last.
		"default, definition": {"then definitions, which are cluster-scoped, too", `[]`, crd, 2},
		// Rule (manifest.md#deletion): The group `empty` takes nothing.
		"empty": {"the empty group takes nothing", `[{"predefinedResourceGroup":{"type":"empty"}}]`, pod, -1},
		// Rule (manifest.md#deletion): An object without a group stays on the target.
		"another scope": {"what no group takes is left", `[{"predefinedResourceGroup":{"type":"cluster-scoped-resources"}}]`, pod, -1},
		// Rule (manifest.md#deletion): An object belongs to the first matching group.
		"kind":              {"the first group takes it", custom(`"resources":[{"apiVersion":"v1","kind":"Pod"}]`), pod, 0},
		"plural":            {"names of a kind may be plural", custom(`"resources":[{"apiVersion":"v1","kind":"PODS"}]`), pod, 0},
		"another version":   {"an object is the same in all versions", custom(`"resources":[{"apiVersion":"v3","kind":"Pod"}]`), pod, 0},
		"another API group": {"but not in all groups", custom(`"resources":[{"apiVersion":"x/v1","kind":"Pod"}]`), pod, 1},
		// Rule (manifest.md#deletion): A group selects by names.
		"another name":     {"names restrict", custom(`"resources":[{"apiVersion":"v1","kind":"Pod","names":["b"]}]`), pod, 1},
		"one of the names": {"one is enough", custom(`"resources":[{"apiVersion":"v1","kind":"Pod","names":["b","a"]}]`), pod, 0},
		// Rule (manifest.md#deletion): A group selects by namespaces.
		"another namespace": {"so do namespaces", custom(`"resources":[{"apiVersion":"v1","kind":"Pod","namespaces":["x"]}]`), pod, 1},
		"second resource": {
			"one of the resources is enough", custom(`"resources":[{"apiVersion":"v1","kind":"Node"},{"apiVersion":"v1","kind":"Pod"}]`), pod, 0,
		},
		"no namespace": {
			"what is in no namespace is in none of the given ones",
			custom(`"resources":[{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","namespaces":["ns"]}]`), role, 2,
		},
		"another target": {
			"what is managed is on the own target",
			custom(`"resources":[{"apiVersion":"v1","kind":"Pod"}],"deleteAllResources":true,"targetName":"x"`), pod, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := place(parse(t, c.groups).orDefault(), c.subject.key, c.subject.namespaced); got != c.want {
				t.Errorf("%s: expected group %d, but found %d", c.reason, c.want, got)
			}
		})
	}
}

// TestBelongsToCluster: deleteAllResources would never come to its end with what Kubernetes creates again, and must not
// leave out more.
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

// subject is what decides on the group of an object.
type subject struct {
	key        object.Key
	namespaced bool
}

func parse(t interface{ Fatal(args ...any) }, document string) Groups {
	var list []managedresource.DeletionGroup
	if err := json.Unmarshal([]byte(document), &list); err != nil {
		t.Fatal(err)
	}
	groups, problems := ParseGroups(list, field.NewPath("groups"))
	if len(problems) > 0 {
		t.Fatal(problems.ToAggregate())
	}
	return groups
}
