package controller

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"

	"github.com/pergola-deploy/pergola/host/internal/contract"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

const (
	// resource is that of deploy items.
	resource = "deployitems"
	// pageSize is how many items a list has at most where it may have pages. The API server ends a request after a minute.
	pageSize = 20_000
)

// Source lists and watches deploy items in full for a cache that keeps their metadata. What is seen of an item on the
// way need not be read: its type, whether it is idle, and the content of one that is not. The zero value has no items.
type Source struct {
	client rest.Interface
	// seen gets each item before the cache has it, and may keep it. listed: it is of a list, and not of a watch.
	seen func(item *v1alpha1.DeployItem, listed bool)
	// known are the items of the cache; nil before there is an informer.
	known atomic.Pointer[itemIndex]
}

// itemIndex is the store of an informer.
type itemIndex struct{ cache.Indexer }

var _ cache.ListerWatcherWithContext = (*Source)(nil)

// NewSource returns a source of the items of a cluster. It sends no request. scheme has the types of Landscaper.
func NewSource(cluster *rest.Config, scheme *runtime.Scheme) (*Source, error) {
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
	return &Source{client: c, seen: func(*v1alpha1.DeployItem, bool) {}}, nil
}

// NewInformer is for the options of a cache. It returns an informer that gets the metadata of deploy items from the
// source, and an ordinary one for all other objects.
func (s *Source) NewInformer(
	lw cache.ListerWatcher, example runtime.Object, resync time.Duration, indexers cache.Indexers,
) cache.SharedIndexInformer {
	meta, ok := example.(*metav1.PartialObjectMetadata)
	if !ok || meta.GroupVersionKind() != v1alpha1.DeployItemGVK {
		return cache.NewSharedIndexInformer(lw, example, resync, indexers)
	}
	all := cache.Indexers{usersIndex: usedBy}
	maps.Copy(all, indexers)
	informer := cache.NewSharedIndexInformer(s, example, resync, all)
	s.known.Store(&itemIndex{informer.GetIndexer()})
	return informer
}

// each calls a function with the metadata of each item in the cache, which must not be changed.
func (s *Source) each(f func(*metav1.PartialObjectMetadata)) {
	if known := s.known.Load(); known != nil {
		eachOf(known.List(), f)
	}
}

// Each calls a function with the metadata of each item of a namespace in the cache, which must not be changed. The error
// is that of the cache.
func (s *Source) Each(namespace string, f func(*metav1.PartialObjectMetadata)) error {
	known := s.known.Load()
	if known == nil {
		return nil
	}
	found, err := known.ByIndex(cache.NamespaceIndex, namespace)
	if err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	eachOf(found, f)
	return nil
}

func eachOf(items []any, f func(*metav1.PartialObjectMetadata)) {
	for _, obj := range items {
		if meta, ok := obj.(*metav1.PartialObjectMetadata); ok {
			f(meta)
		}
	}
}

// usersIndex is the index of the items by what they refer to, as usedBy has it.
const usersIndex = "users"

// used is an object that items refer to, for the index.
func used(kind, namespace, name string) string { return kind + "/" + namespace + "/" + name }

// usedBy returns what an item refers to, by its metadata in the cache.
func usedBy(obj any) ([]string, error) {
	meta, ok := obj.(*metav1.PartialObjectMetadata)
	if !ok {
		return nil, nil
	}
	target, lsContext := contract.ReferencesOf(meta)
	all := []string{used(kindContext, meta.Namespace, lsContext)}
	if target != "" {
		all = append(all, used(kindTarget, meta.Namespace, target))
	}
	return all, nil
}

// users calls a function with the metadata of each item in the cache that refers to an object. The metadata must not be
// changed.
func (s *Source) users(kind string, object client.ObjectKey, f func(*metav1.PartialObjectMetadata)) error {
	known := s.known.Load()
	if known == nil {
		return nil
	}
	found, err := known.ByIndex(usersIndex, used(kind, object.Namespace, object.Name))
	if err != nil {
		return fmt.Errorf("list deploy items in the cache: %w", err)
	}
	eachOf(found, f)
	return nil
}

// IsWatchListSemanticsUnSupported says that a list is no watch: whether an item is listed or new makes a difference.
func (s *Source) IsWatchListSemanticsUnSupported() bool { return true }

// List is ListWithContext without a context.
func (s *Source) List(options metav1.ListOptions) (runtime.Object, error) {
	return s.ListWithContext(context.Background(), options)
}

// Watch is WatchWithContext without a context.
func (s *Source) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return s.WatchWithContext(context.Background(), options)
}

// ListWithContext lists the items, and decodes each as soon as it arrives, so that the list is not held in full and the
// API server encodes the next item meanwhile. The first list is the newest one, and not any that the API server has:
// the content of items that it has is not read again.
func (s *Source) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	if options.ResourceVersion == "0" {
		options.ResourceVersion = ""
	}
	if options.Limit > 0 {
		options.Limit = pageSize
	}
	body, err := s.request(&options).Stream(ctx)
	if err != nil {
		return nil, fmt.Errorf("list deploy items: %w", err)
	}
	list := &metav1.List{}
	var annotations map[string]string // items in a row have mostly the same ones, which are larger than all the rest
	list.ListMeta, err = decodeList(body, func(d *json.Decoder) error {
		meta, item, err := decodeItem(d)
		if err != nil {
			return err
		}
		if item != nil {
			s.seen(item, true)
		}
		if maps.Equal(meta.Annotations, annotations) {
			meta.Annotations = annotations
		}
		annotations = meta.Annotations
		list.Items = append(list.Items, runtime.RawExtension{Object: meta})
		return nil
	})
	if err = errors.Join(err, body.Close()); err != nil {
		return nil, fmt.Errorf("list deploy items: %w", err)
	}
	return list, nil
}

func (s *Source) request(options *metav1.ListOptions) *rest.Request {
	return s.client.Get().Resource(resource).VersionedParams(options, metav1.ParameterCodec)
}

// decodeList decodes a list, and each item of it by a function.
func decodeList(encoded io.Reader, item func(*json.Decoder) error) (meta metav1.ListMeta, err error) {
	d := json.NewDecoder(encoded)
	err = decodeObject(d, func(field json.Token) error {
		switch field {
		case "items":
			return decodeArray(d, item)
		case "metadata":
			return d.Decode(&meta)
		default:
			return d.Decode(&json.RawMessage{})
		}
	})
	if err == nil && meta.ResourceVersion == "" {
		err = errors.New("the answer of the API server is no list")
	}
	return meta, err
}

// decodeObject decodes the value of each field of an object by a function.
func decodeObject(d *json.Decoder, value func(field json.Token) error) error {
	if begin, err := d.Token(); err != nil {
		return err
	} else if begin != json.Delim('{') {
		return fmt.Errorf("expected an object, but found %v", begin)
	}
	for d.More() {
		field, err := d.Token()
		if err != nil {
			return err
		}
		if err := value(field); err != nil {
			return err
		}
	}
	_, err := d.Token() // }
	return err
}

func decodeArray(d *json.Decoder, element func(*json.Decoder) error) error {
	if begin, err := d.Token(); err != nil || begin == nil { // null
		return err
	} else if begin != json.Delim('[') {
		return fmt.Errorf("expected an array, but found %v", begin)
	}
	for d.More() {
		if err := element(d); err != nil {
			return err
		}
	}
	_, err := d.Token() // ]
	return err
}

// decodeItem returns the metadata of the next item, and the item; nil for one of which only the metadata can be
// decoded, so that this concerns no other item. Whoever reads it finds the error.
func decodeItem(d *json.Decoder) (*metav1.PartialObjectMetadata, *v1alpha1.DeployItem, error) {
	item := &v1alpha1.DeployItem{}
	err := d.Decode(&wireItem{DeployItem: item, Metadata: wireMetadata{ObjectMeta: &item.ObjectMeta}})
	item.TypeMeta = metav1.TypeMeta{} // as in any item that a client reads
	switch {
	case err == nil:
		meta := slim(item)
		contract.NoteReferences(meta, item)
		return meta, item, nil
	case item.ResourceVersion != "": // metadata comes before spec and status
		return slim(item), nil, nil
	default:
		return nil, nil, err
	}
}

// wireItem decodes an item without the managers of its fields, as itemclient reads it.
type wireItem struct {
	*v1alpha1.DeployItem
	Metadata wireMetadata `json:"metadata"`
}

type wireMetadata struct {
	*metav1.ObjectMeta
	ManagedFields skipped `json:"managedFields"`
}

// skipped is what is not decoded.
type skipped struct{}

// UnmarshalJSON implements json.Unmarshaler.
func (*skipped) UnmarshalJSON([]byte) error { return nil }

// WatchWithContext watches the items.
func (s *Source) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	options.Watch = true
	body, err := s.request(&options).Stream(ctx)
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
	var item *v1alpha1.DeployItem
	err = decodeObject(e.json, func(field json.Token) (err error) {
		switch {
		case field == "type": // which comes first
			return e.json.Decode(&eventType)
		case eventType == watch.Error:
			status := &metav1.Status{}
			object = status
			return e.json.Decode(status)
		default:
			object, item, err = decodeItem(e.json)
			return err
		}
	})
	if err == nil && item != nil && (eventType == watch.Added || eventType == watch.Modified) {
		e.source.seen(item, false)
	}
	return eventType, object, err
}

// Close implements watch.Decoder.
func (e *eventDecoder) Close() {
	_ = e.body.Close() // nothing more is read
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
