package desired

import (
	"reflect"
	"regexp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/managedfields"
	"github.com/pergola-deploy/pergola/plugins/internal/object"
	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ofStatus finds a field of the status in the message of a cause.
var ofStatus = regexp.MustCompile(`\bstatus\.[a-z]`)

// MayBeImmutable reports whether all causes of a refused change may be immutable fields.
func MayBeImmutable(i *Object, live *unstructured.Unstructured, found []metav1.StatusCause) bool {
	return len(found) > 0 && !slices.ContainsFunc(found, func(c metav1.StatusCause) bool {
		compares := c.Type == metav1.CauseTypeFieldValueInvalid || c.Type == metav1.CauseTypeForbidden
		return !compares || c.Field == "status" || strings.HasPrefix(c.Field, "status.") ||
			ofStatus.MatchString(c.Message) || !changesField(i, live, pathOf(c.Field))
	})
}

// pathOf returns the path of a field of a cause, as far as it leads through maps; empty for the whole object.
func pathOf(field string) []string {
	field, _, _ = strings.Cut(field, "[")
	if field == "" || field == "<nil>" {
		return nil
	}
	return strings.Split(field, ".")
}

// changesField reports whether a manifest has another value than an object at a path. A name that is in neither is no
// field, but a part of the field around it.
func changesField(i *Object, live *unstructured.Unstructured, path []string) bool {
	var wanted, found any = i.Compared(), live.Object
	for _, name := range path {
		fields, _ := wanted.(map[string]any)
		existing, _ := found.(map[string]any)
		inner, named := fields[name]
		value, exists := existing[name]
		switch {
		case !named && exists:
			return false
		case !named:
			return !reflect.DeepEqual(wanted, objects.Project(wanted, found))
		}
		wanted, found = inner, value
	}
	if _, isMap := found.(map[string]any); isMap && managedfields.IsWhole(live, path) {
		return !reflect.DeepEqual(wanted, found)
	}
	return !reflect.DeepEqual(wanted, objects.Project(wanted, found))
}

// MergedWith returns approximately the result of the merging strategies; nil for the replacing ones.
func MergedWith(i *Object, live *unstructured.Unstructured) *unstructured.Unstructured {
	var merged map[string]any
	switch i.Strategy {
	case managedresource.UpdateStrategyMerge, managedresource.UpdateStrategyMergeOverwrite:
		merged = objects.Content(Wanted(i, live))
	case managedresource.UpdateStrategyApply:
		merged, _ = mergedByNames(objects.Content(live), i.Desired.Object).(map[string]any)
	default:
		return nil
	}
	delete(merged, "status")
	return &unstructured.Unstructured{Object: merged}
}

// mergedByNames merges values as server-side apply does with most: maps by their fields, and lists of maps by the
// names of the elements.
func mergedByNames(live, wanted any) any {
	switch w := wanted.(type) {
	case map[string]any:
		l, _ := live.(map[string]any)
		out := runtime.DeepCopyJSON(l)
		if out == nil {
			out = map[string]any{}
		}
		for key, value := range w {
			out[key] = mergedByNames(l[key], value)
		}
		return out
	case []any:
		existing, _ := live.([]any)
		return mergedLists(existing, w)
	default:
		return wanted
	}
}

func mergedLists(live, wanted []any) []any {
	unnamed := func(element any) bool { return nameIn(element) == "" }
	if slices.ContainsFunc(live, unnamed) || slices.ContainsFunc(wanted, unnamed) {
		return runtime.DeepCopyJSONValue(wanted).([]any) //nolint:forcetypeassert // a copy of a list
	}
	out := make([]any, 0, len(live)+len(wanted))
	out = append(out, live...)
	for _, element := range wanted {
		named := func(other any) bool { return nameIn(other) == nameIn(element) }
		if at := slices.IndexFunc(out, named); at >= 0 {
			out[at] = mergedByNames(out[at], element)
			continue
		}
		out = append(out, element)
	}
	return out
}

func nameIn(element any) string {
	fields, _ := element.(map[string]any)
	return object.Text(fields, "name")
}

// exceeded finds the amounts requested of an exceeded quota. Quotas are checked after everything else is found right.
var exceeded = regexp.MustCompile(`exceeded quota: .*requested: (\S+), used: `)

// IsFreedQuota reports whether a quota forbids a creation for no more than the end of the existing object would give
// back.
func IsFreedQuota(err error, live *unstructured.Unstructured) bool {
	found := exceeded.FindStringSubmatch(err.Error())
	if found == nil {
		return false
	}
	for _, request := range strings.Split(found[1], ",") {
		name, amount, _ := strings.Cut(request, "=")
		requested, err := resource.ParseQuantity(amount)
		if err != nil || requested.Cmp(freed(name, live)) > 0 {
			return false
		}
	}
	return true
}

// freed returns the amount of a quota's resource an object gives back.
func freed(name string, live *unstructured.Unstructured) resource.Quantity {
	storage := object.Text(live.Object, "spec", "resources", "requests", "storage")
	switch {
	case strings.HasPrefix(name, "count/"), !strings.ContainsAny(name, "./"),
		strings.HasSuffix(name, "/persistentvolumeclaims"):
		return *resource.NewQuantity(1, resource.DecimalSI)
	case name == "requests.storage", strings.HasSuffix(name, "/requests.storage"):
		if amount, err := resource.ParseQuantity(storage); err == nil {
			return amount
		}
	}
	return resource.Quantity{}
}

// WithoutAllocations returns an object without its requested addresses and ports. As long as the object exists they
// are its own, and a new one would be refused over them.
func WithoutAllocations(o *unstructured.Unstructured) *unstructured.Unstructured {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Kind: "Service"}) {
		return o
	}
	out := o.DeepCopy()
	spec := object.Child(out.Object, "spec")
	if spec["clusterIP"] != corev1.ClusterIPNone {
		delete(spec, "clusterIP")
		delete(spec, "clusterIPs")
	}
	delete(spec, "healthCheckNodePort")
	for _, port := range object.Maps(spec, "ports") {
		delete(port, "nodePort")
	}
	return out
}

// MayRecreate reports whether the object may be deleted to be created anew. With further losses, the setting must be
// for this object, and not for a whole list.
func (i *Object) MayRecreate(lost string) bool {
	return i.Recreate && objects.RuleOf(i.Policy).Deleted && (lost == "" || !i.Listed)
}
