package watch

import (
	"context"
	"fmt"

	"github.com/go-logr/logr"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// reflect reports the changes of the selected objects until the context ends. After each failure it tries again, with
// a pause growing to a minute. The reasons are not logged, as nothing depends on watches.
func reflect(ctx context.Context, key streamKey, selected metav1.ListOptions, told *told) {
	logger := logr.Discard()
	ctx = klog.NewContext(ctx, logger)
	objects := key.client.Metadata(key.mapping, key.namespace)
	selectIn := func(options metav1.ListOptions) metav1.ListOptions {
		options.LabelSelector, options.FieldSelector = selected.LabelSelector, selected.FieldSelector
		return options
	}
	lister := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
			list, err := objects.List(ctx, selectIn(options))
			told.failed(err)
			return list, err
		},
		WatchFuncWithContext: func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
			w, err := objects.Watch(ctx, selectIn(options))
			told.failed(err)
			return w, err
		},
	}
	cache.NewReflectorWithOptions(lister, &metav1.PartialObjectMetadata{}, told, cache.ReflectorOptions{
		Name:            key.client.Host,
		TypeDescription: key.mapping.Resource.String(),
		Logger:          &logger,
	}).RunWithContext(ctx)
}

// told takes the reports of a reflector about a stream until the context ends.
type told struct {
	set    *Set
	stream *stream
	ctx    context.Context
}

// Add implements cache.ReflectorStore.
func (t *told) Add(o any) error { return t.Update(o) }

// Update implements cache.ReflectorStore.
func (t *told) Update(o any) error { return t.one(o, true) }

// Delete implements cache.ReflectorStore. The resource version is that of the deletion, so that it wakes no item with
// a later object of that name.
func (t *told) Delete(o any) error { return t.one(o, false) }

// failed takes the error of a request; nil for none.
func (t *told) failed(err error) {
	if !apierrors.IsUnauthorized(err) {
		return
	}
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.ctx.Err() == nil {
		t.set.refused(t.stream)
	}
}

func (t *told) one(o any, exists bool) error {
	metadata, ok := o.(*metav1.PartialObjectMetadata)
	if !ok {
		return fmt.Errorf("expected the metadata of an object, but found a %T", o)
	}
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil
	}
	t.stream.latest = metadata.ResourceVersion
	if exists {
		t.stream.versions[metadata.Name] = metadata.ResourceVersion
	} else {
		delete(t.stream.versions, metadata.Name)
	}
	for f := range t.stream.follows[metadata.Name] {
		t.set.compare(f)
	}
	return nil
}

// Replace implements cache.ReflectorStore: the list has all existing objects.
func (t *told) Replace(list []any, latest string) error {
	versions := make(map[string]string, len(list))
	for _, o := range list {
		metadata, ok := o.(*metav1.PartialObjectMetadata)
		if !ok {
			return fmt.Errorf("expected the metadata of an object, but found a %T", o)
		}
		versions[metadata.Name] = metadata.ResourceVersion
	}
	t.set.mu.Lock()
	defer t.set.mu.Unlock()
	if t.ctx.Err() != nil {
		return nil
	}
	t.stream.versions, t.stream.latest, t.stream.synced = versions, latest, true
	for _, followers := range t.stream.follows {
		for f := range followers {
			t.set.compare(f)
		}
	}
	return nil
}

// Resync implements cache.ReflectorStore. It is never due.
func (t *told) Resync() error { return nil }
