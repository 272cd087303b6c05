package itemcache

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// forbiddenRetry is the pause before the next attempt to watch a forbidden namespace.
const forbiddenRetry = 30 * time.Second

// positions are the resourceVersions up to which the items of some namespaces are known. A reflector has one for all
// namespaces, which is behind for one and ahead of another.
type positions struct {
	mu sync.Mutex
	of map[string]string
}

func (p *positions) get(namespace string) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.of[namespace]
}

func (p *positions) set(namespace, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.of[namespace] = version
}

// advance sets a position after an event. A position begins with a bookmark: the items before it have no order.
func (p *positions) advance(namespace string, event watch.Event) {
	item, ok := event.Object.(*v1alpha1.DeployItem)
	if !ok {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if before := p.of[namespace]; before == "" {
		if event.Type == watch.Bookmark {
			p.of[namespace] = item.ResourceVersion
		}
	} else if order, err := resourceversion.CompareResourceVersion(before, item.ResourceVersion); err != nil || order < 0 {
		p.of[namespace] = item.ResourceVersion
	}
}

// listNamespaces lists the items of the source's namespaces as one list.
func (s *Source) listNamespaces(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	all := &metav1.List{}
	for _, namespace := range s.namespaces {
		items, version, err := s.listNamespace(ctx, namespace, options)
		if err != nil {
			return nil, err
		}
		s.positions.set(namespace, version)
		all.Items, all.ResourceVersion = append(all.Items, items...), cmp.Or(version, all.ResourceVersion)
	}
	return all, nil
}

// listNamespace lists the items of a namespace, page by page, and returns their position. A forbidden namespace, such
// as one without the host's Role yet, must not hold up the others: its items are those in the cache, with the position
// so far. They are none, without a position, if the namespace is gone.
func (s *Source) listNamespace(
	ctx context.Context, namespace string, options metav1.ListOptions,
) (items []runtime.RawExtension, position string, err error) {
	for {
		page, err := s.list(ctx, namespace, options)
		switch {
		case apierrors.IsForbidden(err) && s.isGone(ctx, namespace):
			return nil, "", nil
		case apierrors.IsForbidden(err):
			items = nil
			err = s.Each(namespace, func(item *v1alpha1.DeployItem) {
				items = append(items, runtime.RawExtension{Object: item})
			})
			return items, s.positions.get(namespace), err
		case err != nil:
			return nil, "", err
		}
		items = append(items, page.Items...)
		if page.Continue == "" {
			return items, page.ResourceVersion, nil
		}
		options.ResourceVersion, options.Continue = "", page.Continue
	}
}

// isGone reports whether there is no such namespace, as far as the host may tell.
func (s *Source) isGone(ctx context.Context, namespace string) bool {
	return apierrors.IsNotFound(s.client.Get().AbsPath("/api/v1/namespaces", namespace).Do(ctx).Error())
}

// watchNamespaces watches the items of the source's namespaces, each from its own position. A forbidden namespace is
// tried again after a while.
func (s *Source) watchNamespaces(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	all := newMergedWatch()
	for _, namespace := range s.namespaces {
		first, w, err := s.watchNamespace(ctx, namespace, options)
		if err != nil {
			all.Stop()
			return nil, err
		}
		if w == nil {
			all.endAfter(s.retry)
			w = watch.NewFake() // without events
		}
		all.add(first, w, func(event watch.Event) { s.positions.advance(namespace, event) })
	}
	return all, nil
}

// watchNamespace returns a watch of a namespace from its position, nil if that is forbidden, and the events before it.
func (s *Source) watchNamespace(
	ctx context.Context, namespace string, options metav1.ListOptions,
) (first []watch.Event, w watch.Interface, err error) {
	if options.ResourceVersion = s.positions.get(namespace); options.ResourceVersion == "" {
		first, options.ResourceVersion, err = s.catchUp(ctx, namespace)
		if err != nil || options.ResourceVersion == "" {
			return first, nil, err
		}
	}
	w, err = s.watch(ctx, namespace, options)
	if !apierrors.IsForbidden(err) {
		return first, w, err
	}
	if s.isGone(ctx, namespace) {
		s.positions.set(namespace, "")
	}
	return nil, nil, nil
}

// catchUp returns the events that bring the cache to the state of a namespace without a position, with a bookmark at
// the end, and the new position; empty if the namespace is forbidden.
func (s *Source) catchUp(ctx context.Context, namespace string) (events []watch.Event, position string, err error) {
	items, position, err := s.listNamespace(ctx, namespace, metav1.ListOptions{Limit: pageSize})
	if err != nil {
		return nil, "", err
	}
	listed := map[string]bool{}
	for _, raw := range items {
		if item, ok := raw.Object.(*v1alpha1.DeployItem); ok {
			listed[item.Name] = true
			events = append(events, watch.Event{Type: watch.Added, Object: item})
		}
	}
	err = s.Each(namespace, func(item *v1alpha1.DeployItem) {
		if !listed[item.Name] {
			events = append(events, watch.Event{Type: watch.Deleted, Object: item})
		}
	})
	if position != "" {
		bookmark := &v1alpha1.DeployItem{ObjectMeta: metav1.ObjectMeta{ResourceVersion: position}}
		events = append(events, watch.Event{Type: watch.Bookmark, Object: bookmark})
	}
	return events, position, err
}

// mergedWatch has the events of several watches. It ends with the first of them.
type mergedWatch struct {
	events chan watch.Event
	ended  context.Context
	end    context.CancelFunc
	parts  sync.WaitGroup
	closed func()
}

var _ watch.Interface = (*mergedWatch)(nil)

func newMergedWatch() *mergedWatch {
	m := &mergedWatch{events: make(chan watch.Event)}
	m.ended, m.end = context.WithCancel(context.Background())
	m.closed = sync.OnceFunc(func() { close(m.events) })
	m.parts.Go(func() { <-m.ended.Done() }) // also without a watch
	go func() {
		m.parts.Wait()
		m.closed()
	}()
	return m
}

// add adds a watch, with events before its own. taken is called with each event after its receipt from the merged
// watch.
func (m *mergedWatch) add(first []watch.Event, w watch.Interface, taken func(watch.Event)) {
	context.AfterFunc(m.ended, w.Stop)
	send := func(event watch.Event) (sent bool) {
		select {
		case m.events <- event:
			taken(event)
			return true
		case <-m.ended.Done():
			return false
		}
	}
	m.parts.Go(func() {
		defer m.end()
		for _, event := range first {
			if !send(event) {
				return
			}
		}
		for event := range w.ResultChan() {
			if !send(event) {
				return
			}
		}
	})
}

// endAfter ends the watch after a while.
func (m *mergedWatch) endAfter(d time.Duration) {
	timer := time.AfterFunc(d, m.end)
	context.AfterFunc(m.ended, func() { timer.Stop() })
}

// Stop implements watch.Interface. When it returns, taken is not called any more.
func (m *mergedWatch) Stop() {
	m.end()
	m.parts.Wait()
}

// ResultChan implements watch.Interface.
func (m *mergedWatch) ResultChan() <-chan watch.Event { return m.events }

// patient lists and watches objects of a namespace for an informer. A namespace that may not exist yet, nor the host's
// Role in it, must not hold up the start of the host: until the first success, a forbidden list is empty, and a
// forbidden watch has no events for a while.
type patient struct {
	cache.ListerWatcher

	retry   time.Duration
	allowed atomic.Bool
}

var _ cache.ListerWatcherWithContext = (*patient)(nil)

// ListWithContext implements cache.ListerWatcherWithContext.
func (p *patient) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	list, err := cache.ToListerWatcherWithContext(p.ListerWatcher).ListWithContext(ctx, options)
	if p.waits(err) {
		return &metav1.List{}, nil
	}
	return list, err //nolint:wrapcheck // of the informer's own client
}

// WatchWithContext implements cache.ListerWatcherWithContext.
func (p *patient) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	w, err := cache.ToListerWatcherWithContext(p.ListerWatcher).WatchWithContext(ctx, options)
	if p.waits(err) {
		none := newMergedWatch()
		none.endAfter(p.retry)
		return none, nil
	}
	return w, err //nolint:wrapcheck // of the informer's own client
}

// waits reports whether an error is the lack of a right that the host never had.
func (p *patient) waits(err error) bool {
	if err == nil {
		p.allowed.Store(true)
	}
	return apierrors.IsForbidden(err) && !p.allowed.Load()
}

// IsWatchListSemanticsUnSupported is true: a watch in place of the list could not be empty.
func (p *patient) IsWatchListSemanticsUnSupported() bool { return true }
