package remove

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// fewItems is how many objects of a kind in a namespace are looked at one by one rather than in a list.
const fewItems = 3

// look lists the metadata of the items where that takes fewer requests than to look at each, and notes what it finds. It need not find all:
// an object may have lost its label, or these credentials may not list. That shows when the object is looked at by itself.
func (s step) look(ctx context.Context, client *target.Client, by owner.Owner) {
	type place struct {
		mapping   target.Mapping
		namespace string
	}
	byPlace := map[place]map[string]*item{}
	for i := range s.items {
		it := &s.items[i]
		if !it.needsWhole() {
			at := place{it.mapping, it.key.Namespace}
			if byPlace[at] == nil {
				byPlace[at] = map[string]*item{}
			}
			byPlace[at][it.key.Name] = it
		}
	}
	for at, items := range byPlace {
		if len(items) > fewItems {
			_ = lookAt(ctx, client, at.mapping, at.namespace, by, items) // whose error is that of each item, see above
		}
	}
}

// lookAt notes what a list of the owner's objects shows of items, which are by name.
func lookAt(
	ctx context.Context, client *target.Client, mapping target.Mapping, namespace string, by owner.Owner, items map[string]*item,
) error {
	own := labels.Set{owner.Label: by.Labels()[owner.Label]}
	options := metav1.ListOptions{LabelSelector: labels.SelectorFromSet(own).String(), Limit: pageSize}
	for {
		list, err := client.Metadata(mapping, namespace).List(ctx, options)
		if err != nil {
			return err
		}
		for i := range list.Items {
			it, ok := items[list.Items[i].Name]
			if !ok {
				continue
			}
			fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&list.Items[i])
			if err != nil {
				return err
			}
			it.listed = &unstructured.Unstructured{Object: fields}
		}
		if options.Continue = list.GetContinue(); options.Continue == "" {
			return nil
		}
	}
}

// needsWhole tells whether more of the object than its metadata decides on what is done or said.
func (it item) needsWhole() bool {
	return it.entry.PatchBeforeDelete != nil || len(it.entry.AnnotateBeforeDelete) > 0 || hasObstacles(it.key.Group, it.key.Kind)
}
