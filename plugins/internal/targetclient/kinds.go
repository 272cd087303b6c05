package targetclient

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
)

// kinds is what an API server said about the kinds that it serves. It does not change once it is made.
type kinds struct {
	// asked is when the question was put.
	asked   time.Time
	byKind  map[schema.GroupVersionKind]Mapping
	byGroup map[schema.GroupKind]Mapping
	// failed are the groups that the API server could not tell anything about, since it only passes requests on to others.
	failed map[string]error
}

// discover asks an API server for all its kinds.
func discover(ctx context.Context, client discovery.DiscoveryInterfaceWithContext) (*kinds, error) {
	k := &kinds{
		asked:   time.Now(),
		byKind:  map[schema.GroupVersionKind]Mapping{},
		byGroup: map[schema.GroupKind]Mapping{},
		failed:  map[string]error{},
	}
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
		gv, err := schema.ParseGroupVersion(list.GroupVersion)
		if err != nil {
			continue
		}
		for _, resource := range list.APIResources {
			if strings.Contains(resource.Name, "/") {
				continue
			}
			k.add(gv.WithKind(resource.Kind), Mapping{Resource: gv.WithResource(resource.Name), Namespaced: resource.Namespaced})
		}
	}
	return k, nil
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
