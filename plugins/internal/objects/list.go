package objects

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

const (
	// fewObjects bounds the objects of a kind in a namespace to be read one by one rather than in a list.
	fewObjects = 3
	// PageSize bounds the objects of a page of a list.
	PageSize = 500
)

// Wanted is an object to read.
type Wanted struct {
	Key     object.Key
	Mapping target.Mapping
}

// Lister returns a page of a list in a namespace, and the token for the next one.
type Lister func(
	ctx context.Context, mapping target.Mapping, namespace string, options metav1.ListOptions,
) (objects []unstructured.Unstructured, next string, err error)

// Whole lists whole objects.
func Whole(client *target.Client) Lister {
	return func(ctx context.Context, mapping target.Mapping, namespace string, options metav1.ListOptions) (
		[]unstructured.Unstructured, string, error,
	) {
		page, err := client.Objects(mapping, namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		return page.Items, page.GetContinue(), nil
	}
}

// MetadataOnly lists only the metadata of objects.
func MetadataOnly(client *target.Client) Lister {
	return func(ctx context.Context, mapping target.Mapping, namespace string, options metav1.ListOptions) (
		[]unstructured.Unstructured, string, error,
	) {
		page, err := client.Metadata(mapping, namespace).List(ctx, options)
		if err != nil {
			return nil, "", err
		}
		objects := make([]unstructured.Unstructured, len(page.Items))
		for i := range page.Items {
			objects[i].Object, err = runtime.DefaultUnstructuredConverter.ToUnstructured(&page.Items[i])
			if err != nil {
				return nil, "", err
			}
		}
		return objects, page.GetContinue(), nil
	}
}

// Listed are objects read in lists, and perhaps not all existing ones: an object may have lost its label, or the
// credentials may not permit the list. A read of the object itself shows this. It is safe for concurrent use.
type Listed struct {
	mu      sync.Mutex
	objects map[object.Key]*unstructured.Unstructured
}

// List reads the wanted objects with the labels of the selector, where this takes fewer requests than to read each.
func List(ctx context.Context, list Lister, wanted []Wanted, selector string) *Listed {
	type place struct {
		mapping   target.Mapping
		namespace string
	}
	byPlace := map[place]map[string]object.Key{}
	for _, w := range wanted {
		at := place{w.Mapping, w.Key.Namespace}
		if byPlace[at] == nil {
			byPlace[at] = map[string]object.Key{}
		}
		byPlace[at][w.Key.Name] = w.Key
	}
	var places []place
	for at, names := range byPlace {
		if len(names) > fewObjects {
			places = append(places, at)
		}
	}
	l := &Listed{objects: map[object.Key]*unstructured.Unstructured{}}
	Each(places, func(at place) struct{} {
		options := metav1.ListOptions{LabelSelector: selector, Limit: PageSize}
		missing := len(byPlace[at])
		// No more requests than for a read of each.
		for range len(byPlace[at]) {
			page, next, err := list(ctx, at.mapping, at.namespace, options)
			if err != nil {
				break // it is the error of each object, see Listed
			}
			missing -= l.add(page, byPlace[at])
			if options.Continue = next; next == "" || missing <= 0 {
				break
			}
		}
		return struct{}{}
	})
	return l
}

func (l *Listed) add(page []unstructured.Unstructured, wanted map[string]object.Key) (found int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := range page {
		if key, ok := wanted[page[i].GetName()]; ok {
			l.objects[key] = &page[i]
			found++
		}
	}
	return found
}

// Take returns a listed object, once: a second read is for its new state. It is nil if there is none.
func (l *Listed) Take(key object.Key) *unstructured.Unstructured {
	if l == nil {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	live := l.objects[key]
	delete(l.objects, key)
	return live
}
