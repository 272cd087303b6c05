package prune

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// callers returns the groups before the default ones. Configurations of webhooks and bindings of admission policies
// are first: when their server or parameters are gone, the deletion of other objects may be refused. Next are the
// resources served by APIServices or converted by webhooks, and then those APIServices and definitions, while their
// servers run: the end of a definition has all its resources converted.
func (d *deletion) callers(ctx context.Context) []group {
	if len(d.Groups.list) > 0 {
		return nil
	}
	served, converted := map[string]bool{}, map[schema.GroupKind]bool{}
	definitions := map[object.Key]bool{}
	keys := make([]object.Key, 0, len(d.Entries))
	for _, entry := range d.Entries {
		keys = append(keys, object.KeyOfReference(entry.Resource))
	}
	for i, key := range keys {
		switch {
		case object.IsAPIService(key.Group, key.Kind):
			_, group, _ := strings.Cut(key.Name, ".") // its name consists of the version and the group
			served[group] = true
		case object.IsCRD(key.Group, key.Kind) && slices.ContainsFunc(keys, isService):
			live := d.get(ctx, d.Entries[i])
			here := func(service object.Key) bool { return slices.Contains(keys, service) }
			if live != nil && slices.ContainsFunc(objects.Called(live), here) {
				definitions[key] = true
				converted[objects.DefinedKind(live)] = true
			}
		}
	}
	return []group{
		{only: func(k object.Key) bool { return object.Intercepts(k.Group, k.Kind) }},
		{only: func(k object.Key) bool {
			return served[k.Group] || converted[schema.GroupKind{Group: k.Group, Kind: k.Kind}]
		}},
		{only: func(k object.Key) bool { return object.IsAPIService(k.Group, k.Kind) || definitions[k] }},
	}
}

func isService(k object.Key) bool { return k.Group == "" && k.Kind == "Service" }

// get returns the object of an entry; nil if it cannot be read. The same error shows again at its deletion.
func (d *deletion) get(ctx context.Context, e managedresource.ManagedResourceStatus) *unstructured.Unstructured {
	mapping, err := d.client.MappingInAnyVersion(ctx, object.GVK(e.Resource.APIVersion, e.Resource.Kind), d.AsOf)
	if err != nil {
		return nil
	}
	live, err := d.client.Objects(mapping, e.Resource.Namespace).Get(ctx, e.Resource.Name, metav1.GetOptions{})
	if err != nil {
		return nil
	}
	return live
}
