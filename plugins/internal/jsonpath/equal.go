package jsonpath

import (
	"cmp"
	"math"
)

// Equal reports whether two values are the same JSON. Numbers are compared by their values, in any spelling and
// without loss: 1 and 1.0 are equal, 9007199254740993 and 9007199254740992.0 are not.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, inner := range a {
			if other, ok := b[key]; !ok || !Equal(inner, other) {
				return false
			}
		}
		return true
	case []any:
		b, ok := b.([]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for i := range a {
			if !Equal(a[i], b[i]) {
				return false
			}
		}
		return true
	case string:
		b, ok := b.(string)
		return ok && a == b
	case bool:
		b, ok := b.(bool)
		return ok && a == b
	case nil:
		return b == nil
	default:
		order, ok := compareNumbers(a, b)
		return ok && order == 0
	}
}

// compareNumbers compares two numbers without loss. ok is false unless both are an int64 or a float64, as in
// unstructured objects.
func compareNumbers(a, b any) (order int, ok bool) {
	switch a := a.(type) {
	case int64:
		switch b := b.(type) {
		case int64:
			return cmp.Compare(a, b), true
		case float64:
			return compareMixed(a, b), true
		}
	case float64:
		switch b := b.(type) {
		case int64:
			return -compareMixed(b, a), true
		case float64:
			return cmp.Compare(a, b), true
		}
	}
	return 0, false
}

func compareMixed(i int64, f float64) int {
	if order := cmp.Compare(float64(i), f); order != 0 {
		return order // rounding i does not take it past f
	}
	if f >= math.MaxInt64 { // as a float64 it is 2^63, beyond any int64
		return -1
	}
	return cmp.Compare(i, int64(f))
}

// TypeOf names the JSON type of a value, for messages without the value.
func TypeOf(value any) string {
	switch value.(type) {
	case nil:
		return "null"
	case map[string]any:
		return "map"
	case []any:
		return "list"
	case string:
		return "string"
	case bool:
		return "boolean"
	default:
		return "number"
	}
}
