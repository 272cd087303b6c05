package prune

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// stranger names a resource of a CustomResourceDefinition that is not of the deploy item; empty if there is none.
// Resources under deletion do not count.
func (d *deletion) stranger(ctx context.Context, definition *unstructured.Unstructured) (string, error) {
	kinds := objects.Defined(definition)
	if _, established := object.TrueCondition(definition, "Established"); len(kinds) == 0 || !established {
		return "", nil // no client has been able to create any
	}
	kind := kinds[0]
	own := map[types.UID]bool{}
	for _, e := range d.Entries {
		own[e.Resource.UID] = true
	}
	options := metav1.ListOptions{Limit: objects.PageSize}
	for {
		list, err := d.client.Metadata(kind.Mapping, "").List(ctx, options)
		if err != nil {
			return "", err
		}
		for i := range list.Items {
			o := &list.Items[i]
			if o.DeletionTimestamp == nil && !own[o.UID] && d.Owner.Of(o) != owner.Ours {
				key := object.Key{Group: kind.Group, Kind: kind.Kind, Namespace: o.Namespace, Name: o.Name}
				return key.String(), nil
			}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return "", nil
		}
	}
}
