package target

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// Mapping is the place of a kind's objects in the API server.
type Mapping struct {
	Resource   schema.GroupVersionResource
	Namespaced bool
}

// kinds are the kinds served by an API server. They are immutable.
type kinds struct {
	mapper *meta.DefaultRESTMapper
	// failed are the groups with a server behind the API server that did not answer. Package restmapper of client-go
	// would take their kinds for unknown ones, and so their objects for gone.
	failed map[string]error
	// groups are those with any kind.
	groups map[string]bool
}

// discover asks an API server for all its kinds.
func discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (*kinds, error) {
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	isForbidden := apierrors.IsForbidden(err) // client-go does not read this answer
	if err != nil && !isForbidden && !errors.As(err, &partial) {
		return nil, fmt.Errorf("discover the kinds of the target: %w", err)
	}
	if isForbidden || len(lists) == 0 {
		// The discovery client takes a refusal for an ancient API server without kinds.
		return nil, errors.New("discover the kinds of the target: it shows none; " +
			"may these credentials read /api and /apis?")
	}
	k := newKinds(lists)
	if partial != nil {
		for gv, failure := range partial.Groups {
			k.failed[gv.Group] = failure
		}
	}
	return k, nil
}

// newKinds returns the kinds of resources, apart from subresources. An API server lists the versions of a group in
// the order of its preference.
func newKinds(lists []*metav1.APIResourceList) *kinds {
	var versions []schema.GroupVersion
	for _, list := range lists {
		if gv, err := schema.ParseGroupVersion(list.GroupVersion); err == nil {
			versions = append(versions, gv)
		}
	}
	k := &kinds{mapper: meta.NewDefaultRESTMapper(versions), failed: map[string]error{}, groups: map[string]bool{}}
	for _, list := range lists {
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		k.groups[gv.Group] = true
		for _, resource := range slices.Backward(list.APIResources) { // of two with the same kind the first one counts
			if !strings.Contains(resource.Name, "/") {
				k.add(gv, resource)
			}
		}
	}
	return k
}

// add adds a resource with all its names, among them the kind in lower case.
func (k *kinds) add(gv schema.GroupVersion, resource metav1.APIResource) {
	kind, plural, scope := gv.WithKind(resource.Kind), gv.WithResource(resource.Name), meta.RESTScopeRoot
	if resource.Namespaced {
		scope = meta.RESTScopeNamespace
	}
	name := strings.ToLower(resource.Kind)
	for _, singular := range []string{name, cmp.Or(resource.SingularName, name)} {
		k.mapper.AddSpecific(kind, plural, gv.WithResource(singular), scope)
	}
}

// exact finds a kind in its own version.
func (k *kinds) exact(gvk schema.GroupVersionKind) (Mapping, bool) {
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind(), gvk.Version)
	if err != nil || mapping.GroupVersionKind != gvk {
		return Mapping{}, false
	}
	return Mapping{Resource: mapping.Resource, Namespaced: mapping.Scope == meta.RESTScopeNamespace}, true
}

// inAnyVersion finds a kind in its own version, or else in the preferred version of its group.
func (k *kinds) inAnyVersion(gvk schema.GroupVersionKind) (Mapping, bool) {
	if m, ok := k.exact(gvk); ok {
		return m, true
	}
	mapping, err := k.mapper.RESTMapping(gvk.GroupKind())
	if err != nil {
		return Mapping{}, false
	}
	return k.exact(mapping.GroupVersionKind)
}

// named finds a kind by any of its names, in any version of its group.
func (k *kinds) named(gvk schema.GroupVersionKind) (schema.GroupVersionKind, Mapping, bool) {
	found, err := k.mapper.KindsFor(schema.GroupVersionResource{Group: gvk.Group, Resource: gvk.Kind})
	// The mapper finds other groups for the core group, and for the beginning of a group's name.
	i := slices.IndexFunc(found, func(f schema.GroupVersionKind) bool { return f.Group == gvk.Group })
	if err != nil || i < 0 {
		return schema.GroupVersionKind{}, Mapping{}, false
	}
	kind := found[i].GroupKind().WithVersion(gvk.Version)
	m, ok := k.inAnyVersion(kind)
	kind.Version = m.Resource.Version
	return kind, m, ok
}
