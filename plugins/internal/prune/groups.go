package prune

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Groups are the groups of a deletion, in order. The zero value stands for the default: objects in need of servers
// among the entries, see callers, then namespaced objects, then cluster-scoped ones, then CustomResourceDefinitions.
type Groups struct {
	list []group
}

// group is one of them; one of predefined, resources and only is set.
type group struct {
	// path of the group in the provider configuration, for messages; nil for the default groups.
	path       *field.Path
	predefined managedresource.PredefinedResourceGroupType
	resources  []resource
	// force removes finalizers.
	force bool
	// all deletes unmanaged objects, too.
	all bool
	// target names another Target; empty for the deploy item's own.
	target string
	// only, in a group before the default ones, selects by itself.
	only func(object.Key) bool
}

// resource selects objects by kind and name. No names and no namespaces stand for all.
type resource struct {
	// gvk has any name of the kind.
	gvk               schema.GroupVersionKind
	names, namespaces []string
}

var predefinedTypes = []managedresource.PredefinedResourceGroupType{
	managedresource.PredefinedNamespaced, managedresource.PredefinedClusterScoped,
	managedresource.PredefinedCRDs, managedresource.PredefinedEmpty,
}

// ParseGroups validates deletion groups at path in their document, and returns all problems. No groups are the
// default ones; a single predefined group of the type empty deletes nothing.
func ParseGroups(groups []managedresource.DeletionGroup, path *field.Path) (Groups, field.ErrorList) {
	var parsed Groups
	var problems field.ErrorList
	for i, g := range groups {
		at := path.Index(i)
		switch {
		case g.PredefinedResourceGroup != nil && g.CustomResourceGroup != nil:
			problems = append(problems, field.Forbidden(at.Child("customResourceGroup"),
				"cannot be used together with predefinedResourceGroup; make two groups of it"))
		case g.PredefinedResourceGroup != nil:
			predefined, p := parsePredefined(*g.PredefinedResourceGroup, at.Child("predefinedResourceGroup"))
			parsed.list, problems = append(parsed.list, predefined), append(problems, p...)
		case g.CustomResourceGroup != nil:
			custom, p := parseCustom(*g.CustomResourceGroup, at.Child("customResourceGroup"))
			parsed.list, problems = append(parsed.list, custom), append(problems, p...)
		default:
			problems = append(problems, field.Required(at, "expected predefinedResourceGroup or customResourceGroup"))
		}
	}
	if len(problems) > 0 {
		return Groups{}, problems
	}
	return parsed, nil
}

func parsePredefined(g managedresource.PredefinedResourceGroup, path *field.Path) (group, field.ErrorList) {
	var problems field.ErrorList
	if !slices.Contains(predefinedTypes, g.Type) {
		problems = append(problems, field.NotSupported(path.Child("type"), g.Type, predefinedTypes))
	}
	return group{path: path, predefined: g.Type, force: g.ForceDelete}, problems
}

func parseCustom(g managedresource.CustomResourceGroup, path *field.Path) (group, field.ErrorList) {
	parsed := group{path: path, force: g.ForceDelete, all: g.DeleteAllResources}
	var problems field.ErrorList
	if len(g.Resources) == 0 {
		problems = append(problems,
			field.Required(path.Child("resources"), "expected the kinds of the objects to delete"))
	}
	for i, r := range g.Resources {
		resource, p := parseResource(r, path.Child("resources").Index(i))
		parsed.resources, problems = append(parsed.resources, resource), append(problems, p...)
	}
	if g.TargetName != nil {
		parsed.target = *g.TargetName
		if parsed.target == "" {
			problems = append(problems, field.Invalid(path.Child("targetName"), "",
				"expected the name of a Target; leave it out for the deploy item's own"))
		}
		if !g.DeleteAllResources {
			problems = append(problems, field.Forbidden(path.Child("targetName"),
				"needs deleteAllResources: nothing is managed on other Targets"))
		}
	}
	return parsed, problems
}

func parseResource(r managedresource.ResourceType, path *field.Path) (resource, field.ErrorList) {
	var problems field.ErrorList
	gv, err := schema.ParseGroupVersion(r.APIVersion)
	switch {
	case r.APIVersion == "":
		problems = append(problems, field.Required(path.Child("apiVersion"), ""))
	case err != nil:
		problems = append(problems,
			field.Invalid(path.Child("apiVersion"), r.APIVersion, `expected a form like "v1" or "apps/v1"`))
	}
	if r.Kind == "" {
		problems = append(problems, field.Required(path.Child("kind"), ""))
	}
	for _, list := range []struct {
		name   string
		values []string
	}{{"names", r.Names}, {"namespaces", r.Namespaces}} {
		for i, value := range list.values {
			if value == "" {
				problems = append(problems, field.Required(path.Child(list.name).Index(i), "cannot be empty"))
			}
		}
	}
	return resource{gvk: gv.WithKind(r.Kind), names: r.Names, namespaces: r.Namespaces}, problems
}

var defaultGroups = []group{
	{predefined: managedresource.PredefinedNamespaced},
	{predefined: managedresource.PredefinedClusterScoped},
	{predefined: managedresource.PredefinedCRDs},
}

// orDefault returns the groups; for the zero value these are first and then the default ones. The caller may change
// the slice.
func (g Groups) orDefault(first ...group) []group {
	if len(g.list) == 0 {
		return slices.Concat(first, defaultGroups)
	}
	return slices.Clone(g.list)
}

// place returns the index of the first group for an object, or -1.
func place(groups []group, key object.Key, namespaced bool) int {
	return slices.IndexFunc(groups, func(g group) bool { return g.takes(key, namespaced) })
}

// takes reports whether a managed object fits in the group. Managed objects are on the deploy item's own Target.
func (g group) takes(key object.Key, namespaced bool) bool {
	crd := object.IsCRD(key.Group, key.Kind)
	switch {
	case g.target != "":
		return false
	case g.only != nil:
		return g.only(key)
	case g.predefined == managedresource.PredefinedNamespaced:
		return namespaced
	case g.predefined == managedresource.PredefinedClusterScoped:
		return !namespaced && !crd
	case g.predefined == managedresource.PredefinedCRDs:
		return crd
	default:
		return slices.ContainsFunc(g.resources, func(r resource) bool { return r.matches(key) })
	}
}

func (r resource) matches(key object.Key) bool {
	allows := func(values []string, value string) bool { return len(values) == 0 || slices.Contains(values, value) }
	return r.isKind(key.Group, key.Kind) && allows(r.names, key.Name) && allows(r.namespaces, key.Namespace)
}

// isKind reports whether a kind is the resource's. Its usual plural is recognised without the API server, in case the
// server cannot answer.
func (r resource) isKind(group, kind string) bool {
	if group != r.gvk.Group {
		return false
	}
	plural, _ := meta.UnsafeGuessKindToResource(schema.GroupVersionKind{Kind: kind})
	return strings.EqualFold(kind, r.gvk.Kind) || strings.EqualFold(plural.Resource, r.gvk.Kind)
}
