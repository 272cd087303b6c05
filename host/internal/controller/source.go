package controller

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// pageSize is how many items a list holds at a time.
const pageSize = 500

// Source lists and watches deploy items in full for a cache that keeps their metadata. What is seen of an item on the
// way need not be read: its type, whether it is idle, and the content of one that is not. The zero value is of no use.
type Source struct {
	client client.WithWatch
	// seen gets each item before the cache has it, and may keep it. listed: it is of a list, and not of a watch.
	seen func(item *v1alpha1.DeployItem, listed bool)
}

var _ cache.ListerWatcherWithContext = (*Source)(nil)

// NewSource returns a source of the items of a cluster. It sends no request. scheme has the types of Landscaper.
func NewSource(cluster *rest.Config, scheme *runtime.Scheme) (*Source, error) {
	c, err := client.NewWithWatch(cluster, client.Options{Scheme: scheme})
	if err != nil {
		return nil, fmt.Errorf("make a client of deploy items: %w", err)
	}
	return &Source{client: c, seen: func(*v1alpha1.DeployItem, bool) {}}, nil
}

// NewInformer is for the options of a cache. It returns an informer that gets the metadata of deploy items from the
// source, and an ordinary one for all other objects.
func (s *Source) NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	meta, ok := example.(*metav1.PartialObjectMetadata)
	if ok && meta.GroupVersionKind() == v1alpha1.DeployItemGVK {
		lw = s
	}
	return cache.NewSharedIndexInformer(lw, example, resync, indexers)
}

// IsWatchListSemanticsUnSupported says that a list has pages and is no watch, whose events cost twice as much to decode.
func (s *Source) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext without a context.
func (s *Source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch is WatchWithContext without a context.
func (s *Source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext lists the newest items page by page, so that no more than a page of them is held in full.
func (s *Source) ListWithContext(ctx context.Context, _ metav1.ListOptions) (runtime.Object, error) {
	list := &metav1.List{}
	var annotations map[string]string // items in a row have mostly the same ones, which are larger than all the rest
	for {
		page, err := s.listPage(ctx, list.Continue)
		if err != nil {
			return nil, fmt.Errorf("list deploy items: %w", err)
		}
		for i := range page.Items {
			meta := &page.Items[i]
			if maps.Equal(meta.Annotations, annotations) {
				meta.Annotations = annotations
			}
			annotations = meta.Annotations
			list.Items = append(list.Items, runtime.RawExtension{Object: meta})
		}
		list.ListMeta = page.ListMeta
		if list.Continue == "" {
			return list, nil
		}
	}
}

// listPage returns the metadata of a page of items, which are seen.
func (s *Source) listPage(ctx context.Context, token string) (*metav1.PartialObjectMetadataList, error) {
	full := &v1alpha1.DeployItemList{}
	if err := s.client.List(ctx, full, client.Limit(pageSize), client.Continue(token)); err != nil {
		return s.listUnseen(ctx, token, err)
	}
	page := &metav1.PartialObjectMetadataList{
		ListMeta: full.ListMeta, Items: make([]metav1.PartialObjectMetadata, 0, len(full.Items)),
	}
	for i := range full.Items {
		item := full.Items[i].DeepCopy() // else one item that is kept keeps the page
		page.Items = append(page.Items, *slim(item))
		s.seen(item, true)
	}
	return page, nil
}

// listUnseen returns the metadata of a page that has an item which cannot be decoded, so that this concerns no other
// item. An error of the API server is returned as it is.
func (s *Source) listUnseen(
	ctx context.Context, token string, err error,
) (*metav1.PartialObjectMetadataList, error) {
	var answer apierrors.APIStatus
	if errors.As(err, &answer) {
		return nil, err
	}
	page := &metav1.PartialObjectMetadataList{}
	page.SetGroupVersionKind(v1alpha1.GroupVersion.WithKind("DeployItemList"))
	if s.client.List(ctx, page, client.Limit(pageSize), client.Continue(token)) != nil {
		return nil, err
	}
	for i := range page.Items {
		page.Items[i] = *slim(&v1alpha1.DeployItem{ObjectMeta: page.Items[i].ObjectMeta})
	}
	return page, nil
}

// WatchWithContext watches the items.
func (s *Source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	full, err := s.client.Watch(ctx, &v1alpha1.DeployItemList{}, &client.ListOptions{Raw: &options})
	if err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	return watch.Filter(full, func(e watch.Event) (watch.Event, bool) {
		item, ok := e.Object.(*v1alpha1.DeployItem)
		if !ok { // an error
			return e, true
		}
		e.Object = slim(item)
		if e.Type == watch.Added || e.Type == watch.Modified {
			s.seen(item, false)
		}
		return e, true
	}), nil
}

// Listener gets the items that exist when the host starts, so that it need not list them itself.
type Listener interface {
	// Listed gets an item in full, which it must neither keep nor change. It may get an item several times, also later.
	Listed(item *v1alpha1.DeployItem)
	// AllListed is called once, after the last item that exists at the start.
	AllListed()
}

// seen remembers what was seen of an item.
func (c *Controller) seen(item *v1alpha1.DeployItem, listed bool) {
	if listed && c.options.Listed != nil {
		c.options.Listed.Listed(item)
	}
	c.router.see(item)
	idle := decide(item, c.options.Standalone, c.clock.Now()).Action == contract.Nothing &&
		contract.UnknownOperation(item) == ""
	switch {
	case listed && idle:
		c.memory.foundIdle(item)
	case c.plugins.For(item.Spec.Type) != nil:
		c.memory.arrived(item)
	}
}
