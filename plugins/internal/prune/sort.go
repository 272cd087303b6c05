package prune

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// sorted are the entries of a deletion, by their fate.
type sorted struct {
	steps []step
	// gone are objects of kinds not served any more.
	gone []object.Key
	left []Left
}

// sort sorts the entries without reading their objects. The error is about the target as a whole.
func (d *deletion) sort(ctx context.Context) (sorted, error) {
	groups, err := d.nameKinds(ctx)
	if err != nil {
		return sorted{}, err
	}
	result := sorted{steps: make([]step, len(groups))}
	for i, g := range groups {
		result.steps[i].group = g
	}
	for _, entry := range d.Entries {
		key := object.KeyOfReference(entry.Resource)
		if rule := objects.RuleOf(entry.Policy); !rule.Deleted && (d.Kept == nil || !rule.Managed) {
			if d.stays.missing[key] {
				result.gone = append(result.gone, key)
				continue
			}
			result.left = append(result.left, Left{key, "policy " + string(entry.Policy)})
			continue
		}
		gvk := object.GVK(entry.Resource.APIVersion, entry.Resource.Kind)
		mapping, err := d.client.MappingInAnyVersion(ctx, gvk, d.AsOf)
		doubt := ""
		if meta.IsNoMatchError(err) {
			if doubt, err = d.doubt(ctx, gvk, key); err == nil && doubt == "" {
				result.gone = append(result.gone, key)
				continue
			}
		}
		if target.ConcernsAll(ctx, err) {
			return sorted{}, target.Explain(d.client.Host, err)
		}
		// Without an answer of the API server, the namespace shows it: it is noted just for namespaced objects.
		namespaced := mapping.Namespaced || err != nil && key.Namespace != ""
		i := place(groups, key, namespaced)
		switch {
		case i < 0:
			result.left = append(result.left, Left{key, "no deletion group takes it"})
		case doubt != "":
			result.steps[i].doubts = append(result.steps[i].doubts, failure{key.String(), errors.New(doubt)})
		case err != nil:
			failed := failure{key.String(), target.Explain(d.client.Host, err)}
			result.steps[i].failures = append(result.steps[i].failures, failed)
		default:
			result.steps[i].items = append(result.steps[i].items, item{
				key: key, mapping: mapping, entry: entry, force: groups[i].force, ofAnyOwner: groups[i].all,
			})
		}
	}
	return result, nil
}

// doubt returns the reason why an object may exist although the target does not serve its kind, with the remedies;
// empty if it does not exist.
func (d *deletion) doubt(ctx context.Context, kind schema.GroupVersionKind, key object.Key) (string, error) {
	gk := kind.GroupKind()
	if doubt, known := d.doubts[gk]; known {
		return doubt, nil
	}
	doubt, err := d.client.Doubt(ctx, kind, target.Recorded{Namespace: key.Namespace, Name: key.Name})
	if err != nil {
		return "", err
	}
	if doubt != "" {
		doubt = fmt.Sprintf("the target does not serve the kind %s at the moment, but the object may exist: %s; if the kind "+
			"is gone for good, delete its CustomResourceDefinition or APIService, or annotate the deploy item with %s: %q "+
			"to delete it without its objects",
			gk, doubt, v1alpha1.DeleteWithoutUninstallAnnotation, "true")
	}
	d.doubts[gk] = doubt
	return doubt, nil
}

// nameKinds returns the groups with the kinds by their proper names, where the API server knows them. An unknown kind
// has no objects; other errors about a kind are errors of its objects.
func (d *deletion) nameKinds(ctx context.Context) ([]group, error) {
	groups := d.Groups.orDefault(d.callers(ctx)...)
	for i, g := range groups {
		if g.target != "" {
			continue
		}
		groups[i].resources = slices.Clone(g.resources)
		for j, r := range g.resources {
			gvk, _, err := d.client.MappingByName(ctx, r.gvk, d.AsOf)
			if target.ConcernsAll(ctx, err) {
				return nil, target.Explain(d.client.Host, err)
			}
			if err == nil {
				groups[i].resources[j].gvk.Kind = gvk.Kind
			}
		}
	}
	return groups, nil
}
