package objects

import (
	"maps"
	"reflect"

	"k8s.io/apimachinery/pkg/runtime"
)

// The functions of this file work on decoded JSON. Their results share nothing with their arguments. Lists are values:
// they are taken or left as a whole.

// Fill returns base with its missing fields taken from more. An empty value in base counts as missing.
func Fill(base, more map[string]any) map[string]any {
	return combine(base, more, func(current, _ any) bool { return empty(current) })
}

// Overlay returns base with the values of more in the place of its own, except for empty ones.
func Overlay(base, more map[string]any) map[string]any {
	return combine(base, more, func(_, wanted any) bool { return !empty(wanted) })
}

// empty reports whether a value says nothing. Zero and false do say something: replicas may be none, and a feature
// switched off.
func empty(value any) bool {
	switch v := value.(type) {
	case nil:
		return true
	case string:
		return v == ""
	case []any:
		return len(v) == 0
	case map[string]any:
		return len(v) == 0
	default:
		return false
	}
}

// combine returns base with the fields of more it lacks, and with those accepted by replace. Nulls of more stand for
// missing fields.
func combine(base, more map[string]any, replace func(current, wanted any) bool) map[string]any {
	out := runtime.DeepCopyJSON(base)
	for key, wanted := range more {
		if wanted == nil {
			continue
		}
		current := out[key]
		currentMap, isMap := current.(map[string]any)
		wantedMap, wantsMap := wanted.(map[string]any)
		switch {
		case current == nil:
			out[key] = runtime.DeepCopyJSONValue(wanted)
		case isMap && wantsMap:
			out[key] = combine(currentMap, wantedMap, replace)
		case replace(current, wanted):
			out[key] = runtime.DeepCopyJSONValue(wanted)
		}
	}
	return out
}

// MergePatch returns the JSON merge patch (RFC 7386) that turns from into to; it is empty if there is nothing to
// change. Nulls of to stand for missing fields.
func MergePatch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for key := range from {
		if to[key] == nil {
			patch[key] = nil
		}
	}
	for key, wanted := range to {
		current := from[key]
		if wanted == nil || reflect.DeepEqual(current, wanted) {
			continue
		}
		currentMap, isMap := current.(map[string]any)
		wantedMap, wantsMap := wanted.(map[string]any)
		if !isMap || !wantsMap {
			patch[key] = runtime.DeepCopyJSONValue(wanted)
			continue
		}
		if inner := MergePatch(currentMap, wantedMap); len(inner) > 0 {
			patch[key] = inner
		}
	}
	return patch
}

// Patched returns base after a JSON merge patch.
func Patched(base, patch map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(base)
	if out == nil {
		out = map[string]any{}
	}
	for key, wanted := range patch {
		wantedMap, wantsMap := wanted.(map[string]any)
		switch {
		case wanted == nil:
			delete(out, key)
		case wantsMap:
			currentMap, _ := out[key].(map[string]any)
			out[key] = Patched(currentMap, wantedMap)
		default:
			out[key] = runtime.DeepCopyJSONValue(wanted)
		}
	}
	return out
}

// Changes reports whether a JSON merge patch would change base. A new map for removals alone is no change.
func Changes(base, patch map[string]any) bool {
	for key, wanted := range patch {
		current, exists := base[key]
		currentMap, isMap := current.(map[string]any)
		wantedMap, wantsMap := wanted.(map[string]any)
		switch {
		case wanted == nil:
			if exists {
				return true
			}
		case wantsMap && (isMap || !exists && len(wantedMap) > 0):
			if Changes(currentMap, wantedMap) {
				return true
			}
		case !reflect.DeepEqual(current, wanted):
			return true
		}
	}
	return false
}

// WithoutEmptied removes the maps left empty by a JSON merge patch from fields, and returns fields.
func WithoutEmptied(fields, patch map[string]any) map[string]any {
	for key, wanted := range patch {
		inner, isMap := fields[key].(map[string]any)
		wantedMap, wantsMap := wanted.(map[string]any)
		if isMap && wantsMap && len(WithoutEmptied(inner, wantedMap)) == 0 && len(wantedMap) > 0 {
			delete(fields, key)
		}
	}
	return fields
}

// Compose returns the merge patch with the effect of first and then second, on an object with the types of fields
// assumed by first.
func Compose(first, second map[string]any) map[string]any {
	composed := maps.Clone(first)
	if composed == nil {
		composed = make(map[string]any, len(second))
	}
	for name, value := range second {
		before, isMap := composed[name].(map[string]any)
		if now, both := value.(map[string]any); both && isMap {
			value = Compose(before, now)
		}
		composed[name] = value
	}
	return composed
}
