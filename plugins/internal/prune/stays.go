package prune

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// stays are the objects to stay on the target, and the Namespaces, CustomResourceDefinitions and owners that stay
// with them: Kubernetes would delete the objects together with those. It is safe for concurrent use.
type stays struct {
	mu sync.Mutex
	// namespaces and definitions are by name, and owners by uid, each with an object it would take along.
	namespaces, definitions map[string]object.Key
	owners                  map[types.UID]object.Key
	// missing are those of the kept objects that do not exist.
	missing map[object.Key]bool
}

func newStays() *stays {
	return &stays{
		namespaces: map[string]object.Key{}, definitions: map[string]object.Key{},
		owners: map[types.UID]object.Key{}, missing: map[object.Key]bool{},
	}
}

// add notes an object that stays. resource is the resource of its kind.
func (s *stays) add(key object.Key, resource schema.GroupVersionResource) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if key.Namespace != "" {
		s.namespaces[key.Namespace] = key
	}
	s.definitions[resource.GroupResource().String()] = key
}

// with returns the reason for an object to stay with another one; empty if none would go with it.
func (s *stays) with(key object.Key, uid types.UID) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	inner, found := s.owners[uid]
	switch {
	case found:
	case isNamespace(key):
		inner, found = s.namespaces[key.Name]
	case object.IsCRD(key.Group, key.Kind):
		inner, found = s.definitions[key.Name]
	}
	if !found {
		return ""
	}
	return fmt.Sprintf("%s stays, and would be deleted with it", inner)
}

func isNamespace(key object.Key) bool { return key.Group == "" && key.Kind == "Namespace" }

// findStays finds the objects kept by the deploy item or, in an update, still wanted. The error is about the target
// as a whole.
func (d *deletion) findStays(ctx context.Context) error {
	for _, owned := range d.Owned {
		if err := d.addOwners(ctx, owned); err != nil {
			return err
		}
	}
	containers := d.hasContainers()
	if containers {
		for key := range d.Spare {
			resource, err := d.resourceOf(ctx, schema.GroupKind{Group: key.Group, Kind: key.Kind}.WithVersion(""))
			if err != nil {
				return err
			}
			d.stays.add(key, resource)
		}
	}
	for _, entry := range d.Entries {
		if isKept := !objects.RuleOf(entry.Policy).Deleted; !isKept && (d.Kept == nil || !containers) {
			continue
		}
		if err := d.addKept(ctx, entry); err != nil {
			return err
		}
	}
	return nil
}

// hasContainers reports whether a deletion has objects that may take others along, see Contains.
func (d *deletion) hasContainers() bool {
	return slices.ContainsFunc(d.Entries, func(e managedresource.ManagedResourceStatus) bool {
		return Contains(object.KeyOfReference(e.Resource))
	})
}

// Contains reports whether the deletion of such an object takes others along that have no reference to it.
func Contains(key object.Key) bool { return isNamespace(key) || object.IsCRD(key.Group, key.Kind) }

// addKept adds the object of an entry if it is kept. An unreadable object is taken to exist; an object under deletion
// by another client does not stay.
func (d *deletion) addKept(ctx context.Context, entry managedresource.ManagedResourceStatus) error {
	key := object.KeyOfReference(entry.Resource)
	gvk := object.GVK(entry.Resource.APIVersion, entry.Resource.Kind)
	resource, err := d.resourceOf(ctx, gvk)
	if err != nil {
		return err
	}
	mapping := target.Mapping{Resource: resource, Namespaced: key.Namespace != ""}
	live, err := d.client.Metadata(mapping, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	switch {
	case target.ConcernsAll(ctx, err):
		return target.Explain(d.client.Host, err)
	case err != nil && ignoreGone(err) == nil:
		d.stays.missing[key] = true
		return nil
	case err != nil:
		live = &metav1.PartialObjectMetadata{}
	}
	stays := !objects.RuleOf(entry.Policy).Deleted
	if d.Kept != nil && objects.RuleOf(entry.Policy).Managed {
		stays = d.Kept(entry, live) != ""
	}
	if stays && live.GetDeletionTimestamp() == nil {
		d.stays.add(key, resource)
		return d.addOwners(ctx, objects.Owned{Key: key, Owners: live.GetOwnerReferences()})
	}
	return nil
}

// addOwners adds the owners of an object that stays, and theirs: it would be deleted with any of them. The owners of
// an unreadable owner are not found.
func (d *deletion) addOwners(ctx context.Context, inner objects.Owned) error {
	for _, o := range inner.Owners {
		if _, known := d.stays.owners[o.UID]; known {
			continue
		}
		d.stays.owners[o.UID] = inner.Key
		mapping, err := d.client.MappingInAnyVersion(ctx, object.GVK(o.APIVersion, o.Kind), d.AsOf)
		var live *metav1.PartialObjectMetadata
		if err == nil {
			namespace := ""
			if mapping.Namespaced {
				namespace = inner.Key.Namespace
			}
			live, err = d.client.Metadata(mapping, namespace).Get(ctx, o.Name, metav1.GetOptions{})
		}
		switch {
		case target.ConcernsAll(ctx, err):
			return target.Explain(d.client.Host, err)
		case err != nil || live.UID != o.UID:
			continue
		}
		above := objects.Owned{Key: inner.Key, Owners: live.GetOwnerReferences()}
		if err := d.addOwners(ctx, above); err != nil {
			return err
		}
	}
	return nil
}

// Holds returns a function for the reason of an object to stay: an object of the entries, or one with owners, stays
// and would be deleted with it. The reason is empty if there is no such object. The error is about the target as a
// whole.
func Holds(
	ctx context.Context, client *target.Client, d Deletion,
) (func(key object.Key, uid types.UID) (why string), error) {
	work, err := begin(ctx, client, d)
	return work.stays.with, err
}

// resourceOf returns the resource of a kind; for a kind not served, the most likely one. The error is about the
// target as a whole.
func (d *deletion) resourceOf(
	ctx context.Context, gvk schema.GroupVersionKind,
) (schema.GroupVersionResource, error) {
	mapping, err := d.client.MappingInAnyVersion(ctx, gvk, d.AsOf)
	switch {
	case target.ConcernsAll(ctx, err):
		return schema.GroupVersionResource{}, target.Explain(d.client.Host, err)
	case err != nil:
		likely, _ := meta.UnsafeGuessKindToResource(gvk)
		return likely, nil //nolint:nilerr // a kind that is not served has objects that cannot be asked for
	default:
		return mapping.Resource, nil
	}
}
