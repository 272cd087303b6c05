// Package reader reads objects from targets for one call of a deployer: each at most once, and none already at hand.
package reader

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// pageSize is the number of objects in one request of a list.
const pageSize = 500

// Object is the answer of a target about an object.
type Object struct {
	// Name of the object for messages. It includes a Target other than the deploy item's own.
	Name string
	// Live is the object; nil if there is none yet.
	Live *unstructured.Unstructured
	// Missing is the reason of a nil Live, as a text; it begins with the name.
	Missing string
	// Seen is the object to watch; nil for an object at hand, and for a kind not served.
	Seen *watch.Seen
}

// Reader reads objects and keeps them. It is for one goroutine and one call of a deployer.
type Reader struct {
	lookup  target.Lookup
	asOf    time.Time
	targets map[string]access
	known   map[identity]Object
}

type access struct {
	client *target.Client
	err    error
}

// identity has a version, because the shape of an object differs between versions.
type identity struct {
	target          string
	gvk             schema.GroupVersionKind
	namespace, name string
}

// New returns a reader. Objects at hand are those of the deploy item's own Target, and are not read again. asOf is
// for Client.Mapping.
func New(lookup target.Lookup, atHand []*unstructured.Unstructured, asOf time.Time) *Reader {
	r := &Reader{lookup: lookup, asOf: asOf, targets: map[string]access{}, known: map[identity]Object{}}
	for _, o := range atHand {
		id := identity{gvk: o.GroupVersionKind(), namespace: o.GetNamespace(), name: o.GetName()}
		r.known[id] = Object{Name: object.KeyOf(o).String(), Live: o}
	}
	return r
}

// Get returns an object of a Target; the empty name stands for the deploy item's own. A namespaced object without a
// namespace is in the default one. A missing object is no error, nor is a kind not served. Other errors are explained
// ones, see target.Explain.
func (r *Reader) Get(ctx context.Context, targetName string, ref managedresource.TypedObjectReference) (Object, error) {
	id := identity{target: targetName, gvk: object.GVK(ref.APIVersion, ref.Kind), namespace: ref.Namespace, name: ref.Name}
	if known, ok := r.known[id]; ok {
		return known, nil
	}
	client, err := r.client(ctx, targetName)
	if err != nil {
		return Object{}, err
	}
	mapping, err := client.Mapping(ctx, id.gvk, r.asOf)
	if meta.IsNoMatchError(err) {
		return Object{Name: id.String(), Missing: id.notServed()}, nil
	}
	if err != nil {
		return Object{}, target.Explain(client.Host, err)
	}
	switch {
	case !mapping.Namespaced:
		id.namespace = ""
	case id.namespace == "":
		id.namespace = metav1.NamespaceDefault
	}
	if known, ok := r.known[id]; ok {
		return known, nil
	}
	live, err := client.Objects(mapping, id.namespace).Get(ctx, id.name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		live, err = nil, nil
	}
	if err != nil {
		return Object{}, target.Explain(client.Host, fmt.Errorf("read %s: %w", id, err))
	}
	o := Object{Name: id.String(), Live: live, Seen: &watch.Seen{Client: client, Mapping: mapping, Key: id.key()}}
	if live == nil {
		o.Missing = o.Name + " does not exist yet"
	} else {
		*o.Seen = watch.SeenOf(client, mapping, id.key(), live)
	}
	r.known[id] = o
	return o, nil
}

// List visits all objects of a kind with the labels on a Target, in all namespaces. They are read anew each time.
// missing is the reason for a kind not served; see Get for errors.
func (r *Reader) List(
	ctx context.Context, targetName string, gvk schema.GroupVersionKind, selector labels.Selector, visit func(Object),
) (missing string, err error) {
	client, err := r.client(ctx, targetName)
	if err != nil {
		return "", err
	}
	mapping, err := client.Mapping(ctx, gvk, r.asOf)
	if meta.IsNoMatchError(err) {
		return identity{target: targetName, gvk: gvk}.notServed(), nil
	}
	if err != nil {
		return "", target.Explain(client.Host, err)
	}
	options := metav1.ListOptions{LabelSelector: selector.String(), Limit: pageSize}
	for {
		page, err := client.Objects(mapping, metav1.NamespaceAll).List(ctx, options)
		if err != nil {
			return "", target.Explain(client.Host, fmt.Errorf("list objects of kind %s in all namespaces: %w", gvk.Kind, err))
		}
		for i := range page.Items {
			live := &page.Items[i]
			id := identity{target: targetName, gvk: gvk, namespace: live.GetNamespace(), name: live.GetName()}
			seen := watch.SeenOf(client, mapping, id.key(), live)
			visit(Object{Name: id.String(), Live: live, Seen: &seen})
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return "", nil
		}
	}
}

// client looks each Target up once, whatever the result.
func (r *Reader) client(ctx context.Context, targetName string) (*target.Client, error) {
	t, ok := r.targets[targetName]
	if !ok {
		t.client, t.err = r.lookup(ctx, targetName)
		r.targets[targetName] = t
	}
	return t.client, t.err
}

func (id identity) key() object.Key {
	return object.Key{Group: id.gvk.Group, Kind: id.gvk.Kind, Namespace: id.namespace, Name: id.name}
}

// String returns the name for messages.
func (id identity) String() string { return id.key().String() + id.where() }

func (id identity) where() string {
	if id.target == "" {
		return ""
	}
	return fmt.Sprintf(" on Target %q", id.target)
}

func (id identity) notServed() string {
	what := id.String()
	if id.name == "" {
		what = id.gvk.Kind + id.where()
	}
	return fmt.Sprintf("%s: the target does not serve this kind in %s yet", what, id.gvk.GroupVersion())
}

// RequireReference reports the missing fields of a reference in a configuration.
func RequireReference(r managedresource.TypedObjectReference, path *field.Path) field.ErrorList {
	problems := RequireKind(r.APIVersion, r.Kind, path)
	if r.Name == "" {
		problems = append(problems, field.Required(path.Child("name"), ""))
	}
	return problems
}

// RequireKind reports a missing apiVersion or kind in a configuration.
func RequireKind(apiVersion, kind string, path *field.Path) (problems field.ErrorList) {
	if apiVersion == "" {
		problems = append(problems, field.Required(path.Child("apiVersion"), ""))
	}
	if kind == "" {
		problems = append(problems, field.Required(path.Child("kind"), ""))
	}
	return problems
}
