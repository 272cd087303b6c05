package jsonpath

import (
	"cmp"
	"math"
)

// Equal tells whether two values are the same JSON. Numbers are compared by what they are worth, however they are written and without
// loss: 1 and 1.0 are equal, 9007199254740993 and 9007199254740992.0 are not.
func Equal(a, b any) bool {
	switch a := a.(type) {
	case map[string]any:
		b, ok := b.(map[string]any)
		if !ok || len(a) != len(b) {
			return false
		}
		for key, inner := range a {
			other, ok := b[key]
			if !ok || !Equal(inner, other) {
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
		order, ok := CompareNumbers(a, b)
		return ok && order == 0
	}
}

// CompareNumbers compares two numbers without loss: it returns a negative number if a is less than b, zero if they are equal and a
// positive number if a is greater. ok is false unless both are an int64 or a float64, as in unstructured objects.
func CompareNumbers(a, b any) (order int, ok bool) {
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
	switch whole := math.Floor(f); {
	case f >= math.MaxInt64: // as a float64 it is 2^63, which no int64 reaches
		return -1
	case f < math.MinInt64:
		return 1
	case int64(whole) != i:
		return cmp.Compare(i, int64(whole))
	case whole != f:
		return -1 // the rest makes the difference
	default:
		return 0
	}
}

// TypeOf names the JSON type of a value, for messages that must not tell the value.
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
