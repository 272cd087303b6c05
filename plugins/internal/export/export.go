// Package export reads values from objects on a target cluster.
package export

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/apply"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/targetclient"
	"github.com/pergola-deploy/pergola/plugins/internal/targeterror"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// Value is one value to export.
type Value struct {
	Key  string
	Path Path
	From managedresource.TypedObjectReference
}

// Result is what was read.
type Result struct {
	// Exports are the values by their keys, nested at the dots.
	Exports map[string]any
	// Waiting says which values are not there yet. Exports are incomplete then.
	Waiting []string
}

// Read reads all values. Objects that are at hand are not read again from the target. What is not there yet is no error: it is
// in Result.Waiting. asOf is for Client.Mapping.
//
// No two keys may be equal or lead through one another; see Overlap.
func Read(
	ctx context.Context, client *targetclient.Client, values []Value, atHand []*unstructured.Unstructured, asOf time.Time,
) (Result, error) {
	r := reader{client: client, asOf: asOf, known: map[object.Key]*unstructured.Unstructured{}}
	for _, o := range atHand {
		r.known[object.KeyOf(o)] = o
	}
	result := Result{}
	for _, v := range values {
		value, missing, err := r.read(ctx, v)
		switch {
		case err != nil:
			return result, fmt.Errorf("export %q: %w", v.Key, targeterror.Explain(client.Host, err))
		case missing != "":
			result.Waiting = append(result.Waiting, fmt.Sprintf("export %q: %s", v.Key, missing))
		default:
			if result.Exports == nil {
				result.Exports = map[string]any{}
			}
			insert(result.Exports, strings.Split(v.Key, "."), value)
		}
	}
	return result, nil
}

// Overlap tells whether two keys cannot both be exported, because they are equal or one is a map on the way to the other.
func Overlap(a, b string) bool {
	return a == b || strings.HasPrefix(a, b+".") || strings.HasPrefix(b, a+".")
}

func insert(into map[string]any, path []string, value any) {
	for _, name := range path[:len(path)-1] {
		inner, ok := into[name].(map[string]any)
		if !ok {
			inner = map[string]any{}
			into[name] = inner
		}
		into = inner
	}
	into[path[len(path)-1]] = value
}

// reader reads each object at most once.
type reader struct {
	client *targetclient.Client
	asOf   time.Time
	known  map[object.Key]*unstructured.Unstructured
}

// read returns one value, or says what is missing for it.
func (r *reader) read(ctx context.Context, v Value) (value any, missing string, err error) {
	gvk := object.GVK(v.From.APIVersion, v.From.Kind)
	key := object.Key{Group: gvk.Group, Kind: gvk.Kind, Namespace: v.From.Namespace, Name: v.From.Name}
	o, ok := r.known[key]
	if !ok {
		mapping, err := r.client.Mapping(ctx, gvk, r.asOf)
		if meta.IsNoMatchError(err) {
			return nil, fmt.Sprintf("%s: the target does not serve this kind in %s yet", key, gvk.GroupVersion()), nil
		}
		if err != nil {
			return nil, "", err
		}
		key.Namespace = namespaceOf(key.Namespace, mapping)
		if o, err = r.get(ctx, key, mapping); err != nil {
			return nil, "", fmt.Errorf("read %s: %w", key, err)
		}
	}
	if o == nil {
		return nil, fmt.Sprintf("%s does not exist yet", key), nil
	}
	value, found := v.Path.find(o.Object)
	if !found {
		return nil, fmt.Sprintf("%s has no value at %s yet", key, v.Path), nil
	}
	return value, "", nil
}

func namespaceOf(namespace string, mapping targetclient.Mapping) string {
	switch {
	case !mapping.Namespaced:
		return ""
	case namespace == "":
		return apply.DefaultNamespace
	default:
		return namespace
	}
}

// get returns an object, or nil if there is none.
func (r *reader) get(ctx context.Context, key object.Key, mapping targetclient.Mapping) (*unstructured.Unstructured, error) {
	if o, ok := r.known[key]; ok {
		return o, nil
	}
	o, err := r.client.Objects(mapping, key.Namespace).Get(ctx, key.Name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		o, err = nil, nil
	}
	if err == nil {
		r.known[key] = o
	}
	return o, err
}
