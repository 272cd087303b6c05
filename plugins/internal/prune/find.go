package prune

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
)

// finder lists all objects of the kinds of a group, of any owner. It reads only their metadata.
type finder struct {
	client *target.Client
	group  group
	asOf   time.Time
	// spared are objects that do not count, and neither do those in stays.
	spared map[object.Key]bool
	stays  *stays
	// failures are the errors of kinds; their other objects are missing.
	failures []failure
}

// found are some objects of a kind.
type found struct {
	kind    schema.GroupKind
	mapping target.Mapping
	objects []metav1.PartialObjectMetadata
}

func (f found) key(o metav1.Object) object.Key {
	return object.Key{Group: f.kind.Group, Kind: f.kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// all returns all objects, page by page. A kind not served has none.
func (f *finder) all(ctx context.Context) iter.Seq[found] {
	return func(yield func(found) bool) {
		for i, r := range f.group.resources {
			for page, err := range f.ofKind(ctx, r) {
				if err != nil {
					what := "the objects of " + f.group.path.Child("resources").Index(i).String()
					f.failures = append(f.failures, failure{what, target.Explain(f.client.Host, err)})
				} else if !yield(page) {
					return
				}
			}
		}
	}
}

// ofKind returns the objects of a resource; an error is its last value.
func (f *finder) ofKind(ctx context.Context, r resource) iter.Seq2[found, error] {
	return func(yield func(found, error) bool) {
		kind, mapping, err := f.client.MappingByName(ctx, r.gvk, f.asOf)
		unserved := meta.IsNoMatchError(err)
		if unserved {
			err = f.doubt(ctx, r)
		}
		if err == nil && (unserved || !mapping.Namespaced && len(r.namespaces) > 0) {
			return
		}
		if err != nil {
			yield(found{}, err)
			return
		}
		of := found{kind: kind.GroupKind(), mapping: mapping}
		for _, namespace := range orAll(r.namespaces) {
			for _, name := range orAll(r.names) {
				for page, err := range f.pages(ctx, of, namespace, name) {
					if notServed(err) {
						if err = f.confirmUnserved(ctx, r, err); err == nil {
							return
						}
					}
					if err != nil {
						yield(found{}, err)
						return
					}
					if len(page.objects) > 0 && !yield(page, nil) {
						return
					}
				}
			}
		}
	}
}

// orAll returns the values, or the empty one, for all.
func orAll(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// confirmUnserved has the client look the kind up anew, and returns err if it is served.
func (f *finder) confirmUnserved(ctx context.Context, r resource, err error) error {
	f.client.Forget()
	_, _, again := f.client.MappingByName(ctx, r.gvk, f.asOf)
	if meta.IsNoMatchError(again) {
		return f.doubt(ctx, r)
	}
	return cmp.Or(again, err)
}

// doubt returns an error unless a kind not served is proven to have no objects. It has no code: it goes when the kind
// is served again, or not defined any more.
func (f *finder) doubt(ctx context.Context, r resource) error {
	doubt, err := f.client.Doubt(ctx, r.gvk, target.Recorded{})
	if err != nil || doubt == "" {
		return err
	}
	return fmt.Errorf("the target does not serve the kind %s at the moment, but there may be objects of it: %s; "+
		"if the kind is gone for good, delete its CustomResourceDefinition or APIService", r.gvk.GroupKind(), doubt)
}

func (f *finder) pages(ctx context.Context, of found, namespace, name string) iter.Seq2[found, error] {
	options := metav1.ListOptions{Limit: objects.PageSize}
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	return func(yield func(found, error) bool) {
		for {
			list, err := f.client.Metadata(of.mapping, namespace).List(ctx, options)
			if apierrors.IsResourceExpired(err) && options.Continue != "" {
				// The pages before took so long that the rest cannot be listed any more. Their user lists again.
				return
			}
			if err != nil {
				yield(found{}, fmt.Errorf("list %s: %w", of.mapping.Resource.Resource, err))
				return
			}
			of.objects = list.Items[:0]
			for _, o := range list.Items {
				if key := of.key(&o); !f.spared[key] && !belongsToCluster(key) && f.stays.with(key, o.UID) == "" {
					of.objects = append(of.objects, o)
				}
			}
			if options.Continue = list.GetContinue(); !yield(of, nil) || options.Continue == "" {
				return
			}
		}
	}
}

// belongsToCluster reports whether Kubernetes itself creates an object again as soon as it is gone: then no list
// would ever be empty.
func belongsToCluster(key object.Key) bool {
	switch (schema.GroupKind{Group: key.Group, Kind: key.Kind}) {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return key.Name == "kube-root-ca.crt"
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return key.Name == "default"
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "Endpoints"},
		schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		return key.Namespace == metav1.NamespaceDefault && key.Name == "kubernetes"
	default:
		return false
	}
}
