package apply

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// The API server has no error of its own for an immutable field, and each kind explains it in other words. A refused
// change counts as one of an immutable field, possible in a new object, under all of these conditions:
//
//   - All causes are of the types of a comparison with the object as it is. A duplicate, a missing or an unknown value
//     is wrong by itself, or became so by merging.
//   - No cause has to do with the status: a refusal because of the state of an object protects what it stands for.
//   - All causes are about fields changed by the manifest.
//   - The manifest would be accepted as a new object, and the result of its merge with the object would not be refused
//     as a new one.

// ofStatus finds a field of the status in the message of a cause.
var ofStatus = regexp.MustCompile(`\bstatus\.[a-z]`)

// mayBeImmutable reports whether all causes of a refused change may be immutable fields.
func mayBeImmutable(i *Item, live *unstructured.Unstructured, found []metav1.StatusCause) bool {
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
func changesField(i *Item, live *unstructured.Unstructured, path []string) bool {
	var wanted, found any = i.compared(), live.Object
	for _, name := range path {
		fields, _ := wanted.(map[string]any)
		existing, _ := found.(map[string]any)
		inner, named := fields[name]
		value, exists := existing[name]
		switch {
		case !named && exists:
			return false
		case !named:
			return !reflect.DeepEqual(wanted, project(wanted, found))
		}
		wanted, found = inner, value
	}
	if _, isMap := found.(map[string]any); isMap && isWhole(live, path) {
		return !reflect.DeepEqual(wanted, found)
	}
	return !reflect.DeepEqual(wanted, project(wanted, found))
}

// isImmutable reports whether the API server would accept the object of a refused change as a new one. unknown is the
// reason if it does not show this.
func isImmutable(
	ctx context.Context, w writer, i *Item, live *unstructured.Unstructured, refused error,
) (immutable bool, unknown error) {
	if !mayBeImmutable(i, live, causes(refused)) {
		return false, nil
	}
	err := wouldCreate(ctx, w, i, i.Desired)
	switch {
	case apierrors.IsForbidden(err) && !isFreedQuota(err, live):
		return false, err
	case !apierrors.IsAlreadyExists(err) && !apierrors.IsForbidden(err):
		return false, nil
	}
	merged := mergedWith(i, live)
	if merged == nil {
		return true, nil
	}
	again := causes(wouldCreate(ctx, w, i, merged))
	return !slices.ContainsFunc(again, func(c metav1.StatusCause) bool {
		return slices.ContainsFunc(causes(refused), func(r metav1.StatusCause) bool { return r.Field == c.Field })
	}), nil
}

// wouldCreate tries the creation of an existing object in a dry run: the API server reports its existence only if the
// new one is valid and admission allows it.
func wouldCreate(ctx context.Context, w writer, i *Item, o *unstructured.Unstructured) error {
	probe := *i
	probe.Desired = withoutAllocations(o)
	_, err := w.dry().createOnly(ctx, &probe)
	return err
}

// mergedWith returns approximately the result of the merging strategies; nil for the replacing ones.
func mergedWith(i *Item, live *unstructured.Unstructured) *unstructured.Unstructured {
	var merged map[string]any
	switch i.Strategy {
	case managedresource.UpdateStrategyMerge, managedresource.UpdateStrategyMergeOverwrite:
		merged = content(wanted(i, live))
	case managedresource.UpdateStrategyApply:
		merged, _ = mergedByNames(content(live), i.Desired.Object).(map[string]any)
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
	name, _ := fields["name"].(string)
	return name
}

// exceeded finds the amounts requested of an exceeded quota. Quotas are checked after everything else is found right.
var exceeded = regexp.MustCompile(`exceeded quota: .*requested: (\S+), used: `)

// isFreedQuota reports whether a quota forbids a creation for no more than the end of the existing object would give
// back.
func isFreedQuota(err error, live *unstructured.Unstructured) bool {
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
	storage, _, _ := unstructured.NestedString(live.Object, "spec", "resources", "requests", "storage")
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

// mayRecreate reports whether the object may be deleted to be created anew. With further losses, the setting must be
// for this object, and not for a whole list.
func (i *Item) mayRecreate(lost string) bool {
	return i.Recreate && RuleOf(i.Policy).Deleted && (lost == "" || !i.Listed)
}

// immutableField quotes the API server's error with the fields, and adds a remedy. lost names the losses with the
// object, and held is the reason against its deletion.
func immutableField(i *Item, lost, held string, err error) error {
	remedy := "change the manifest back, or give the object another name"
	at := ""
	if i.Settings != nil {
		at = " at " + i.Settings.String()
	}
	switch {
	case i.Recreate && !RuleOf(i.Policy).Deleted:
		remedy += "; recreate has no effect with the policy " + string(i.Policy)
	case held != "":
		remedy += "; it is not deleted to be created anew, since " + held
	case i.Recreate:
		remedy = fmt.Sprintf("recreate%s does not apply, since with it go %s; "+
			"to have that, give the object an entry of its own with recreate: true", at, lost)
	case at != "" && lost != "":
		remedy = fmt.Sprintf("with recreate: true%s it is deleted and created anew, and with it go %s", at, lost)
	case at != "":
		remedy = fmt.Sprintf("set recreate: true%s, and it is deleted and created anew; or %s", at, remedy)
	}
	return configurationError(ReasonImmutableField,
		fmt.Errorf("it cannot be changed as the manifest says, although a new one could be created so: %w; %s", err, remedy))
}

// undecided returns the error about a refused change if it is unknown whether a new object could have it.
func undecided(refused, unknown error) error {
	return configurationError("ObjectRejected", errors.Join(refused,
		fmt.Errorf("whether a new one could be created so is not known: %w", unknown)))
}
