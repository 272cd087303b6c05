// Package export reads values from objects on target clusters.
package export

import (
	"context"
	"fmt"
	"maps"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
	"github.com/pergola-deploy/pergola/plugins/internal/reader"
	"github.com/pergola-deploy/pergola/plugins/internal/watch"
	"github.com/pergola-deploy/pergola/plugins/kubernetes/target"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ReasonInvalid is the reason of the error about an existing value unfit for export.
const ReasonInvalid = "ExportInvalid"

// Value is one value to export; see Parse.
type Value struct {
	// Key under which the value is exported. Dots make nested maps.
	Key string
	// Path of the value in the object, or of the reference to another one.
	Path jsonpath.Path
	// From names the object.
	From managedresource.TypedObjectReference
	// FromObject describes the object behind the reference and the value in it; nil if the value is in the first object.
	FromObject *Reference
	// TargetName names the Target of all of this; empty for the deploy item's own.
	TargetName string
}

// Reference is the kind of a referenced object, with the path of the value in it.
type Reference struct {
	APIVersion, Kind string
	Path             jsonpath.Path
}

// Result has the read values.
type Result struct {
	// Exports are the values by their keys, nested at the dots. They share memory with the objects.
	Exports map[string]any
	// Waiting names the missing values. Exports are incomplete then.
	Waiting []string
	// Seen are the objects to watch for missing values, without those at hand.
	Seen []watch.Seen
}

// Read reads all values, from the Target of client if they name no other. Objects at hand are of that Target, and are
// not read again; no other object is read twice. A missing value is no error: it is in Result.Waiting. An existing
// value unfit for export is an error worth another try: the object may change. All errors are returned at once, each
// with its key, and the result has all readable values. lookup is only called for other Targets. asOf is for
// Client.Mapping.
func Read(
	ctx context.Context, client *target.Client, values []Value, atHand []*unstructured.Unstructured, lookup target.Lookup,
	asOf time.Time,
) (Result, error) {
	find := func(ctx context.Context, targetName string) (*target.Client, error) {
		if targetName == "" {
			return client, nil
		}
		return lookup(ctx, targetName)
	}
	r := reader.New(find, atHand, asOf)
	var result Result
	var errs []error
	for _, v := range values {
		if err := ctx.Err(); err != nil {
			return result, err
		}
		found, err := read(ctx, r, v)
		switch {
		case err != nil:
			errs = append(errs, fmt.Errorf("export %q: %w", v.Key, err))
		case found.missing != "":
			result.Waiting = append(result.Waiting, fmt.Sprintf("export %q: %s", v.Key, found.missing))
			result.Seen = append(result.Seen, found.seen...)
		default:
			if result.Exports == nil {
				result.Exports = map[string]any{}
			}
			Insert(result.Exports, v.Key, found.value)
		}
	}
	return result, target.Collect(errs)
}

// Insert puts a value into nested maps, under a key with dots. It copies the maps on the way, since they may be shared.
func Insert(into map[string]any, key string, value any) {
	path := strings.Split(key, ".")
	for _, name := range path[:len(path)-1] {
		inner := map[string]any{}
		if known, ok := into[name].(map[string]any); ok {
			inner = maps.Clone(known)
		}
		into[name] = inner
		into = inner
	}
	into[path[len(path)-1]] = value
}

// outcome is a value, or the reason why it is missing, and the objects on the way.
type outcome struct {
	value   any
	missing string
	seen    []watch.Seen
}

func read(ctx context.Context, r *reader.Reader, v Value) (outcome, error) {
	first, o, err := readFrom(ctx, r, v.TargetName, v.From, v.Path)
	if err != nil || first.missing != "" || v.FromObject == nil {
		return first, err
	}
	ref, missing, err := refer(first.value, v.FromObject)
	switch {
	case err != nil:
		return outcome{}, &sdk.Error{Reason: ReasonInvalid, Err: fmt.Errorf("%s at %s: %w", o.Name, v.Path, err)}
	case missing != "":
		first.missing = fmt.Sprintf("%s at %s: %s", o.Name, v.Path, missing)
		return first, nil
	case ref.Namespace == "":
		ref.Namespace = o.Live.GetNamespace()
	}
	second, _, err := readFrom(ctx, r, v.TargetName, ref, v.FromObject.Path)
	second.seen = append(second.seen, first.seen...)
	return second, err
}

// readFrom reads the value at a path in an object, and returns the object, too.
func readFrom(
	ctx context.Context, r *reader.Reader, targetName string, ref managedresource.TypedObjectReference, path jsonpath.Path,
) (outcome, reader.Object, error) {
	o, err := r.Get(ctx, targetName, ref)
	if err != nil {
		return outcome{}, o, err
	}
	var out outcome
	if o.Seen != nil {
		out.seen = []watch.Seen{*o.Seen}
	}
	if o.Live == nil {
		out.missing = o.Missing
		return out, o, nil
	}
	value, found, err := path.Value(o.Live.Object)
	switch {
	case err != nil:
		return outcome{}, o, &sdk.Error{Reason: ReasonInvalid, Err: fmt.Errorf("%s at %s: %w", o.Name, path, err)}
	case !found:
		out.missing = fmt.Sprintf("%s has no value at %s yet", o.Name, path)
	default:
		out.value = value
	}
	return out, o, nil
}

// refer reads a value as a reference. One without a name is not complete yet. The error names the type of the value,
// and no more.
func refer(value any, to *Reference) (ref managedresource.TypedObjectReference, missing string, err error) {
	ref = managedresource.TypedObjectReference{APIVersion: to.APIVersion, Kind: to.Kind}
	object, ok := value.(map[string]any)
	if !ok {
		return ref, "", fmt.Errorf("expected a map with the name of an object of kind %s, but found a %s",
			to.Kind, jsonpath.TypeOf(value))
	}
	for _, part := range []struct {
		name string
		into *string
	}{{"name", &ref.Name}, {"namespace", &ref.Namespace}} {
		inner := object[part.name]
		if inner == nil {
			continue
		}
		if *part.into, ok = inner.(string); !ok {
			return ref, "", fmt.Errorf("expected the %s of an object of kind %s, but found a %s",
				part.name, to.Kind, jsonpath.TypeOf(inner))
		}
	}
	if ref.Name == "" {
		return ref, fmt.Sprintf("there is no name of an object of kind %s yet", to.Kind), nil
	}
	return ref, "", nil
}
