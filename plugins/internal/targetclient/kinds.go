package targetclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// kinds is what an API server said about the kinds that it serves. It does not change once it is made.
type kinds struct {
	// asked is when the question was put.
	asked   time.Time
	byKind  map[schema.GroupVersionKind]Mapping
	byGroup map[schema.GroupKind]Mapping
	// byName are the kinds by their group and any of their names in lower case: that of the kind, plural and singular.
	byName map[schema.GroupKind]schema.GroupVersionKind
	// failed are the groups that the API server could not tell anything about, since it only passes requests on to others.
	failed map[string]error
}

func newKinds(asked time.Time) *kinds {
	return &kinds{
		asked:   asked,
		byKind:  map[schema.GroupVersionKind]Mapping{},
		byGroup: map[schema.GroupKind]Mapping{},
		byName:  map[schema.GroupKind]schema.GroupVersionKind{},
		failed:  map[string]error{},
	}
}

// discover asks an API server for all its kinds.
func discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (*kinds, error) {
	k := newKinds(time.Now())
	_, lists, err := client.ServerGroupsAndResourcesWithContext(ctx)
	var partial *discovery.ErrGroupDiscoveryFailed
	if err != nil && !errors.As(err, &partial) {
		return nil, fmt.Errorf("discover the kinds that the target serves: %w", err)
	}
	if len(lists) == 0 {
		// The discovery client takes a refusal for an ancient API server that serves nothing.
		return nil, errors.New("discover the kinds that the target serves: it shows none; may these credentials read /api and /apis?")
	}
	if partial != nil {
		for gv, failure := range partial.Groups {
			k.failed[gv.Group] = failure
		}
	}
	for _, list := range lists {
		k.addList(list)
	}
	return k, nil
}

// addList adds the resources of a group version, apart from subresources.
func (k *kinds) addList(list *metav1.APIResourceList) {
	gv, err := schema.ParseGroupVersion(list.GroupVersion)
	if err != nil {
		return
	}
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") {
			continue
		}
		gvk := gv.WithKind(resource.Kind)
		k.add(gvk, Mapping{Resource: gv.WithResource(resource.Name), Namespaced: resource.Namespaced})
		k.addNames(gvk, resource.Kind, resource.Name, resource.SingularName)
	}
}

// add keeps the first mapping of a kind: an API server lists the versions of a group in the order of its preference.
func (k *kinds) add(gvk schema.GroupVersionKind, m Mapping) {
	if _, ok := k.byKind[gvk]; !ok {
		k.byKind[gvk] = m
	}
	if _, ok := k.byGroup[gvk.GroupKind()]; !ok {
		k.byGroup[gvk.GroupKind()] = m
	}
}

func (k *kinds) addNames(gvk schema.GroupVersionKind, names ...string) {
	for _, name := range names {
		key := schema.GroupKind{Group: gvk.Group, Kind: strings.ToLower(name)}
		if _, ok := k.byName[key]; !ok && name != "" {
			k.byName[key] = gvk
		}
	}
}

// named finds a kind by any of its names, in any version of its group.
func (k *kinds) named(gvk schema.GroupVersionKind) (schema.GroupVersionKind, Mapping, bool) {
	found, ok := k.byName[schema.GroupKind{Group: gvk.Group, Kind: strings.ToLower(gvk.Kind)}]
	if !ok {
		return found, Mapping{}, false
	}
	found.Version = gvk.Version
	m, ok := k.inAnyVersion(found)
	found.Version = m.Resource.Version
	return found, m, ok
}

func (k *kinds) exact(gvk schema.GroupVersionKind) (Mapping, bool) {
	m, ok := k.byKind[gvk]
	return m, ok
}

func (k *kinds) inAnyVersion(gvk schema.GroupVersionKind) (Mapping, bool) {
	if m, ok := k.byKind[gvk]; ok {
		return m, true
	}
	m, ok := k.byGroup[gvk.GroupKind()]
	return m, ok
}

func (k *kinds) failure(group string) error { return k.failed[group] }
