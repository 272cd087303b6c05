package managedfields

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"

	"github.com/pergola-deploy/pergola/plugins/internal/objects"
	"github.com/pergola-deploy/pergola/plugins/internal/owner"
)

// The functions of this file read managedFields: the managers' sets of fields, as trees. A set without fields in it
// has the whole value.

// Owns reports whether this field manager has set a field, or a part of it.
func Owns(live *unstructured.Unstructured, path []string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		_, found := within(setIn(entry), live.Object, path)
		return found && entry.Manager == owner.FieldManager && entry.Subresource == ""
	})
}

// IsWhole reports whether a field is one value to the API server, such as a selector, or in one: a part missing in
// the manifest is a change of this value.
func IsWhole(live *unstructured.Unstructured, path []string) bool {
	return slices.ContainsFunc(live.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		set, found := within(setIn(entry), live.Object, path)
		return found && len(set) == 0
	})
}

// setIn returns the fields of an entry; nil if they cannot be read.
func setIn(entry metav1.ManagedFieldsEntry) (fields map[string]any) {
	if entry.FieldsV1 == nil || json.Unmarshal(entry.FieldsV1.GetRawBytes(), &fields) != nil || len(fields) == 0 {
		return nil
	}
	return fields
}

// within returns the part of a set at a path of a value: the fields in it, none if it has the whole value.
func within(fields map[string]any, value any, path []string) (set map[string]any, found bool) {
	if fields == nil {
		return nil, false
	}
	if len(path) == 0 || len(fields) == 0 {
		return fields, true
	}
	name, rest := path[0], path[1:]
	list, isList := value.([]any)
	if !isList {
		inner, _ := fields["f:"+name].(map[string]any)
		existing, _ := value.(map[string]any)
		return within(inner, existing[name], rest)
	}
	index, err := strconv.Atoi(name)
	if err != nil || index < 0 || index >= len(list) {
		return nil, false
	}
	return within(elementIn(fields, list[index]), list[index], rest)
}

// elementIn returns the part of a list's set for an element; nil for none.
func elementIn(fields map[string]any, element any) map[string]any {
	for key, inner := range fields {
		named, isKey := strings.CutPrefix(key, "k:")
		value, isValue := strings.CutPrefix(key, "v:")
		if isKey && isNamed(named, element) || isValue && isValueOf(value, element) {
			within, _ := inner.(map[string]any)
			return within
		}
	}
	return nil
}

func isNamed(names string, element any) bool {
	var fields map[string]any
	return utiljson.Unmarshal([]byte(names), &fields) == nil &&
		reflect.DeepEqual(any(fields), objects.Project(fields, element))
}

func isValueOf(document string, element any) bool {
	var value any
	return utiljson.Unmarshal([]byte(document), &value) == nil && reflect.DeepEqual(value, element)
}

// only returns the part of a value in a set.
func only(set map[string]any, value any) any {
	if len(set) == 0 {
		return value
	}
	switch v := value.(type) {
	case map[string]any:
		out := map[string]any{}
		for name, field := range v {
			if inner, ok := set["f:"+name].(map[string]any); ok {
				out[name] = only(inner, field)
			}
		}
		return out
	case []any:
		out := []any{}
		for _, element := range v {
			if inner := elementIn(set, element); inner != nil {
				out = append(out, only(inner, element))
			}
		}
		return out
	default:
		return value
	}
}

// OwnPart returns the part of an object set by this field manager.
func OwnPart(live *unstructured.Unstructured) map[string]any {
	for _, entry := range live.GetManagedFields() {
		set := setIn(entry)
		if set != nil && entry.Manager == owner.FieldManager && entry.Subresource == "" {
			part, _ := only(set, live.Object).(map[string]any)
			return part
		}
	}
	return map[string]any{}
}
