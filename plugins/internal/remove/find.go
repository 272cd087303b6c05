package remove

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/target"
)

// pageSize is how many objects are listed at once, and so how many are in memory.
const pageSize = 500

// finder finds all objects of the kinds of a group, whoever they belong to. It sees nothing but their metadata.
type finder struct {
	client *target.Client
	group  group
	asOf   time.Time
	// spared are objects that do not count.
	spared map[object.Key]bool
}

// page is a part of the objects of a kind.
type page struct {
	kind    schema.GroupKind
	mapping target.Mapping
	objects []metav1.PartialObjectMetadata
}

func (p page) key(i int) object.Key {
	o := &p.objects[i]
	return object.Key{Group: p.kind.Group, Kind: p.kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
}

// find shows all objects to use, page by page, until use returns false. A kind that is not served has no objects.
func (f finder) find(ctx context.Context, use func(page) bool) []failure {
	var failures []failure
	for i, r := range f.group.resources {
		more, err := f.findKind(ctx, r, use)
		if err != nil {
			what := "the objects of " + f.group.path.Child("resources").Index(i).String()
			failures = append(failures, failure{what, target.Explain(f.client.Host, err)})
		}
		if !more {
			break
		}
	}
	return failures
}

func (f finder) findKind(ctx context.Context, r resource, use func(page) bool) (more bool, err error) {
	kind, mapping, err := f.client.MappingByName(ctx, r.gvk, f.asOf)
	if meta.IsNoMatchError(err) || err == nil && !mapping.Namespaced && len(r.namespaces) > 0 {
		return true, nil
	}
	if err != nil {
		return true, err
	}
	found := page{kind: kind.GroupKind(), mapping: mapping}
	for _, namespace := range orAll(r.namespaces) {
		for _, name := range orAll(r.names) {
			more, err := f.list(ctx, found, namespace, name, use)
			if notServed(err) {
				return true, f.confirmUnserved(ctx, r, err)
			}
			if err != nil || !more {
				return err != nil, err
			}
		}
	}
	return true, nil
}

// orAll returns the values, or the empty one, which stands for all.
func orAll(values []string) []string {
	if len(values) == 0 {
		return []string{""}
	}
	return values
}

// confirmUnserved makes the client ask anew whether a kind is served, and returns err if it is.
func (f finder) confirmUnserved(ctx context.Context, r resource, err error) error {
	f.client.Forget()
	_, _, again := f.client.MappingByName(ctx, r.gvk, f.asOf)
	switch {
	case meta.IsNoMatchError(again):
		return nil
	case again != nil:
		return again
	default:
		return err
	}
}

func (f finder) list(ctx context.Context, found page, namespace, name string, use func(page) bool) (more bool, err error) {
	options := metav1.ListOptions{Limit: pageSize}
	if name != "" {
		options.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	}
	for {
		list, err := f.client.Metadata(found.mapping, namespace).List(ctx, options)
		if apierrors.IsResourceExpired(err) && options.Continue != "" {
			// It took so long to use the pages before that the rest cannot be listed any more. Who has used them lists again.
			return true, nil
		}
		if err != nil {
			return true, fmt.Errorf("list %s: %w", found.mapping.Resource.Resource, err)
		}
		found.objects = list.Items[:0]
		for _, o := range list.Items {
			key := object.Key{Group: found.kind.Group, Kind: found.kind.Kind, Namespace: o.GetNamespace(), Name: o.GetName()}
			if !f.spared[key] && !belongsToCluster(key) {
				found.objects = append(found.objects, o)
			}
		}
		if len(found.objects) > 0 && !use(found) {
			return false, nil
		}
		if list.GetContinue() == "" {
			return true, nil
		}
		options.Continue = list.GetContinue()
	}
}

// belongsToCluster tells whether Kubernetes itself creates an object again as soon as it is gone: then no list would ever be empty.
func belongsToCluster(key object.Key) bool {
	switch (schema.GroupKind{Group: key.Group, Kind: key.Kind}) {
	case schema.GroupKind{Kind: "ConfigMap"}:
		return key.Name == "kube-root-ca.crt"
	case schema.GroupKind{Kind: "ServiceAccount"}:
		return key.Name == "default"
	case schema.GroupKind{Kind: "Service"}, schema.GroupKind{Kind: "Endpoints"}, schema.GroupKind{Group: "discovery.k8s.io", Kind: "EndpointSlice"}:
		return key.Namespace == metav1.NamespaceDefault && key.Name == "kubernetes"
	default:
		return false
	}
}
