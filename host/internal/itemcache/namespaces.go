package itemcache

import (
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

// advance sets a position after an event. The first events of a watch without a position have no order.
func (p *positions) advance(namespace, version string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if order, err := resourceversion.CompareResourceVersion(p.of[namespace], version); err != nil || order < 0 {
		p.of[namespace] = version
	}
}

// listNamespaces lists the items of the source's namespaces as one list. A forbidden namespace, such as one without
// the host's Role yet, must not hold up the others: of it the list has the items in the cache.
func (s *Source) listNamespaces(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	all := &metav1.List{}
	for _, namespace := range s.namespaces {
		version, err := s.listNamespace(ctx, namespace, options, all)
		switch {
		case apierrors.IsForbidden(err):
			err = s.Each(namespace, func(item *v1alpha1.DeployItem) {
				all.Items = append(all.Items, runtime.RawExtension{Object: item})
			})
		case err == nil:
			s.positions.set(namespace, version)
			all.ResourceVersion = version
		}
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// listNamespace adds the items of a namespace to a list, page by page, and returns the resourceVersion.
func (s *Source) listNamespace(
	ctx context.Context, namespace string, options metav1.ListOptions, all *metav1.List,
) (version string, err error) {
	for {
		page, err := s.list(ctx, namespace, options)
		if err != nil {
			return "", err
		}
		all.Items = append(all.Items, page.Items...)
		if page.Continue == "" {
			return page.ResourceVersion, nil
		}
		options.ResourceVersion, options.Continue = "", page.Continue
	}
}

// watchNamespaces watches the items of the source's namespaces, each from its own position. A forbidden namespace is
// tried again after a while. If it was never listed, its watch begins with its items.
func (s *Source) watchNamespaces(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	all := newMergedWatch()
	forbidden := false
	for _, namespace := range s.namespaces {
		options.ResourceVersion = s.positions.get(namespace)
		w, err := s.watch(ctx, namespace, options)
		if apierrors.IsForbidden(err) {
			forbidden = true
			continue
		}
		if err != nil {
			all.Stop()
			return nil, err
		}
		all.add(w, func(event watch.Event) {
			if item, ok := event.Object.(*v1alpha1.DeployItem); ok {
				s.positions.advance(namespace, item.ResourceVersion)
			}
		})
	}
	if forbidden {
		all.endAfter(s.retry)
	}
	return all, nil
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

// add adds a watch. taken is called with each event after its receipt from the merged watch.
func (m *mergedWatch) add(w watch.Interface, taken func(watch.Event)) {
	context.AfterFunc(m.ended, w.Stop)
	m.parts.Go(func() {
		defer m.end()
		for event := range w.ResultChan() {
			select {
			case m.events <- event:
				taken(event)
			case <-m.ended.Done():
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
