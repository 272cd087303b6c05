package itemcache

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/host/internal/move"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/mark"
)

const (
	// resource is the name of deploy items in requests.
	resource = "deployitems"
	// pageSize is how many items a list has at most where it may have pages. The API server ends a request after a minute.
	pageSize = 20_000
)

// Source lists and watches DeployItems in full for a cache of slim items; see Slim.
type Source struct {
	client rest.Interface
	// namespaces are the only ones with items of the source; none for all.
	namespaces []string
	positions  positions
	// retry is forbiddenRetry.
	retry time.Duration
	// arrived gets each listed or watched item in full, before the cache has it.
	arrived func(*v1alpha1.DeployItem)
	// index is the store of the informer; nil before there is one.
	index atomic.Pointer[itemIndex]
}

// itemIndex is the store of an informer.
type itemIndex struct{ cache.Indexer }

var _ cache.ListerWatcherWithContext = (*Source)(nil)

// NewSource returns a source of the items of a cluster, or of some namespaces. It sends no request. scheme has the
// types of Landscaper.
func NewSource(cluster *rest.Config, scheme *runtime.Scheme, namespaces ...string) (*Source, error) {
	httpClient, err := rest.HTTPClientFor(cluster)
	if err != nil {
		return nil, fmt.Errorf("make a client of deploy items: %w", err)
	}
	const noProtobuf, unstructured = true, false
	c, err := apiutil.RESTClientForGVK(
		v1alpha1.DeployItemGVK, noProtobuf, unstructured, cluster, serializer.NewCodecFactory(scheme), httpClient,
	)
	if err != nil {
		return nil, fmt.Errorf("make a client of deploy items: %w", err)
	}
	return &Source{
		client: c, namespaces: namespaces, positions: positions{of: map[string]string{}}, retry: forbiddenRetry,
		arrived: func(*v1alpha1.DeployItem) {},
	}, nil
}

// OnArrival has f called with each listed or watched item in full, before the cache has the item. f may keep the item.
// It must be set before the cache starts.
func (s *Source) OnArrival(f func(*v1alpha1.DeployItem)) { s.arrived = f }

// NewInformer is for the options of a cache, with one informer of DeployItems for all namespaces: that one uses the
// source, all others are ordinary. Beside a source of some namespaces they wait for missing rights.
func (s *Source) NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	if _, ok := example.(*v1alpha1.DeployItem); !ok {
		if len(s.namespaces) > 0 {
			lw = &patient{ListerWatcher: lw, retry: s.retry}
		}
		return cache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
	all := cache.Indexers{usersIndex: usedBy}
	maps.Copy(all, indexers)
	informer := cache.NewSharedIndexInformer(s, example, resync, all)
	s.index.Store(&itemIndex{informer.GetIndexer()})
	return informer
}

// All calls f with each item in the cache. f must not change it.
func (s *Source) All(f func(*v1alpha1.DeployItem)) {
	if index := s.index.Load(); index != nil {
		each(index.List(), f)
	}
}

// Has reports whether the cache has an item of one of these types.
func (s *Source) Has(types []v1alpha1.DeployItemType) bool {
	index := s.index.Load()
	return index != nil && slices.ContainsFunc(index.List(), func(obj any) bool {
		item, ok := obj.(*v1alpha1.DeployItem)
		return ok && slices.Contains(types, item.Spec.Type)
	})
}

// Each calls f with each item of a namespace in the cache. f must not change it. The error is that of the cache.
func (s *Source) Each(namespace string, f func(*v1alpha1.DeployItem)) error {
	return s.eachBy(cache.NamespaceIndex, namespace, f)
}

// Marked returns the item in the cache with this value of mark.DeployItem; nil for none. It must not be changed.
func (s *Source) Marked(value string) (marked *v1alpha1.DeployItem) {
	index := s.index.Load()
	if index == nil {
		return nil
	}
	has := func(item *v1alpha1.DeployItem) bool { return mark.ValueOf(item.Namespace, item.Name) == value }
	namespace, name, _ := strings.Cut(value, ".")
	obj, _, _ := index.GetByKey(namespace + "/" + name) // a store has no errors
	if item, ok := obj.(*v1alpha1.DeployItem); ok && has(item) {
		return item
	}
	if len(value) < validation.LabelValueMaxLength {
		return nil
	}
	s.All(func(item *v1alpha1.DeployItem) { // the value is a part of a longer one with a hash
		if has(item) {
			marked = item
		}
	})
	return marked
}

// Users calls f with each item in the cache whose Target, old Target or Context is the object, or that needs what the
// item of this name holds; see contract.HeldOf. f must not change the item. The error is that of the cache.
func (s *Source) Users(kind string, object client.ObjectKey, f func(*v1alpha1.DeployItem)) error {
	return s.eachBy(usersIndex, used(kind, object.Namespace, object.Name), f)
}

// Claims returns the needs of living items for the holdings of an item under deletion, in the order of their names; see
// contract.ClaimOn. The error is that of the cache.
func (s *Source) Claims(holder *v1alpha1.DeployItem) (claims []sdk.Claim, err error) {
	err = s.Users(KindHolder, client.ObjectKeyFromObject(holder), func(item *v1alpha1.DeployItem) {
		if what := contract.ClaimOn(holder, item); what != "" {
			claims = append(claims, sdk.Claim{DeployItem: mark.ValueOf(item.Namespace, item.Name), What: what})
		}
	})
	slices.SortFunc(claims, func(a, b sdk.Claim) int { return cmp.Compare(a.DeployItem, b.DeployItem) })
	return claims, err
}

func (s *Source) eachBy(indexName, value string, f func(*v1alpha1.DeployItem)) error {
	index := s.index.Load()
	if index == nil {
		return nil
	}
	found, err := index.ByIndex(indexName, value)
	if err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	each(found, f)
	return nil
}

func each(items []any, f func(*v1alpha1.DeployItem)) {
	for _, obj := range items {
		if item, ok := obj.(*v1alpha1.DeployItem); ok {
			f(item)
		}
	}
}

// usersIndex finds items by their Target, their Context, and the holder of what they need.
const usersIndex = "users"

// The kinds of objects in usersIndex.
const (
	KindTarget  = "Target"
	KindContext = "Context"
	KindHolder  = "Holder"
)

func used(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// usedBy returns the keys of an item in usersIndex.
func usedBy(obj any) ([]string, error) {
	item, ok := obj.(*v1alpha1.DeployItem)
	if !ok {
		return nil, nil
	}
	target, lsContext := contract.ReferencesOf(item)
	keys := []string{used(KindContext, item.Namespace, lsContext)}
	if target != "" {
		keys = append(keys, used(KindTarget, item.Namespace, target))
	}
	if from := move.From(item); from != "" {
		keys = append(keys, used(KindTarget, item.Namespace, from))
	}
	if by := contract.HeldOf(item).By; by.Name != "" {
		keys = append(keys, used(KindHolder, by.Namespace, by.Name))
	}
	return keys, nil
}

// IsWatchListSemanticsUnSupported is true: a watch in place of a list would show listed items as new ones.
func (s *Source) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext without a context.
func (s *Source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch is WatchWithContext without a context.
func (s *Source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext lists the items. It decodes each while the API server encodes the next, so that the list is never
// held in full.
func (s *Source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		// Another list might be older than the last writes of this host before its restart.
		options.ResourceVersion = ""
	}
	if options.Limit > 0 {
		options.Limit = pageSize
	}
	if len(s.namespaces) > 0 {
		return s.listNamespaces(ctx, options)
	}
	return s.list(ctx, metav1.NamespaceAll, options)
}

// list lists the items of a namespace; all for an empty one.
func (s *Source) list(ctx context.Context, namespace string, options metav1.ListOptions) (*metav1.List, error) {
	body, err := s.request(namespace, &options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("list deploy items: %w", err)
	}
	list, err := s.decodeItems(body)
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("list deploy items: %w", err)
	}
	return list, nil
}

// decodeItems decodes a list into items for the cache.
func (s *Source) decodeItems(encoded io.Reader) (*metav1.List, error) {
	list := &metav1.List{}
	var before *v1alpha1.DeployItem
	var err error
	list.ListMeta, err = decodeList(encoded, func(d *json.Decoder) error {
		slim, err := s.decodeNext(d)
		if err != nil {
			return err
		}
		// Neighbours mostly have the same annotations, which are larger than all the rest.
		if before != nil && maps.Equal(slim.Annotations, before.Annotations) {
			slim.Annotations = before.Annotations
		}
		before = slim
		list.Items = append(list.Items, runtime.RawExtension{Object: slim})
		return nil
	})
	return list, err
}

// decodeNext returns the next item for the cache.
func (s *Source) decodeNext(d *json.Decoder) (*v1alpha1.DeployItem, error) {
	item, err := decodeItem(d)
	if err != nil {
		return nil, err
	}
	if item.undecodable {
		return item.DeployItem, nil
	}
	slim := Slim(item.DeployItem)
	s.arrived(item.DeployItem) // from now on it can be changed
	return slim, nil
}

func (s *Source) request(namespace string, options *metav1.ListOptions) *rest.Request {
	return s.client.Get().NamespaceIfScoped(namespace, namespace != metav1.NamespaceAll).Resource(resource).
		VersionedParams(options, metav1.ParameterCodec)
}

// WatchWithContext watches the items.
func (s *Source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	if len(s.namespaces) > 0 {
		return s.watchNamespaces(ctx, options)
	}
	return s.watch(ctx, metav1.NamespaceAll, options)
}

// watch watches the items of a namespace; all for an empty one.
func (s *Source) watch(ctx context.Context, namespace string, options metav1.ListOptions) (watch.Interface, error) {
	body, err := s.request(namespace, &options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("watch deploy items: %w", err)
	}
	reporter := apierrors.NewClientErrorReporter(http.StatusInternalServerError, "watch", "ClientWatchDecoding")
	return watch.NewStreamWatcher(&eventDecoder{source: s, body: body, json: json.NewDecoder(body)}, reporter), nil
}

// eventDecoder decodes the events of a watch.
type eventDecoder struct {
	source *Source
	body   io.Closer
	json   *json.Decoder
}

var _ watch.Decoder = (*eventDecoder)(nil)

// Decode implements watch.Decoder: it blocks until there is an event.
func (e *eventDecoder) Decode() (eventType watch.EventType, object runtime.Object, err error) {
	err = decodeObject(e.json, func(field json.Token) (err error) {
		switch {
		case field == "type": // which comes first
			return e.json.Decode(&eventType)
		case eventType == watch.Error:
			status := &metav1.Status{}
			object = status
			return e.json.Decode(status)
		case eventType == watch.Added || eventType == watch.Modified:
			object, err = e.source.decodeNext(e.json)
			return err
		default:
			item, err := decodeItem(e.json)
			object = item.DeployItem
			return err
		}
	})
	return eventType, object, err
}

// Close implements watch.Decoder.
func (e *eventDecoder) Close() {
	_ = e.body.Close() // nothing more is read
}
