package apply

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

const (
	// fewItems is how many objects of a kind in a namespace are read one by one rather than in a list.
	fewItems = 3
	// pageSize is how many objects a list has at most.
	pageSize = 500
)

// place is where objects can be listed together.
type place struct {
	mapping   target.Mapping
	namespace string
	selector  string
}

// ahead are objects that were read in lists, before anybody looks at each. They need not be all that exist: an object may have lost its
// label, or these credentials may not list. That shows when the object is looked at by itself.
type ahead struct {
	mu    sync.Mutex
	found map[object.Key]*unstructured.Unstructured
}

// readAhead lists the objects that are expected to exist, by the label of their owner.
func (r runner) readAhead(ctx context.Context, stage []*Item) *ahead {
	var expected []*Item
	for _, i := range stage {
		if entry, ok := r.recorded(i.Key); ok && entry.Resource.UID != "" {
			expected = append(expected, i)
		}
	}
	return listAhead(ctx, r.client, expected, func(i *Item) string {
		return labels.Set{owner.Label: i.labels()[owner.Label]}.String()
	})
}

// listAhead lists items where that takes fewer requests than to read each. selector says by which labels an item is found.
func listAhead(ctx context.Context, client *target.Client, all []*Item, selector func(*Item) string) *ahead {
	names := map[place]map[string]*Item{}
	for _, i := range all {
		at := place{mapping: i.Mapping, namespace: i.Key.Namespace, selector: selector(i)}
		if names[at] == nil {
			names[at] = map[string]*Item{}
		}
		names[at][i.Key.Name] = i
	}
	var places []place
	for at, items := range names {
		if len(items) > fewItems {
			places = append(places, at)
		}
	}
	a := &ahead{found: map[object.Key]*unstructured.Unstructured{}}
	each(places, func(at place) error { return a.list(ctx, client, at, names[at]) }) // an error is that of each object, see ahead
	return a
}

// list notes what a list of a place shows of items, which are by name. It leaves off when it has all of them, or has taken as many requests
// as it would have taken to read each.
func (a *ahead) list(ctx context.Context, client *target.Client, at place, items map[string]*Item) error {
	options := metav1.ListOptions{LabelSelector: at.selector, Limit: pageSize}
	missing := len(items)
	for range len(items) {
		page, err := client.Objects(at.mapping, at.namespace).List(ctx, options)
		if err != nil {
			return err
		}
		a.mu.Lock()
		for i := range page.Items {
			if item, ok := items[page.Items[i].GetName()]; ok {
				a.found[item.Key] = &page.Items[i]
				missing--
			}
		}
		a.mu.Unlock()
		if options.Continue = page.GetContinue(); options.Continue == "" || missing <= 0 {
			return nil
		}
	}
	return nil
}

// take returns an object that was read ahead, once: who looks again wants to see what has become of it.
func (a *ahead) take(key object.Key) *unstructured.Unstructured {
	a.mu.Lock()
	defer a.mu.Unlock()
	live := a.found[key]
	delete(a.found, key)
	return live
}
