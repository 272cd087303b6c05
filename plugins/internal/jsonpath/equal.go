package jsonpath

import "math/big"

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

// compareNumbers compares two numbers without loss. ok is false unless both are an int64 or a float64, as in unstructured objects.
func compareNumbers(a, b any) (order int, ok bool) {
	left, right := exact(a), exact(b)
	if left == nil || right == nil {
		return 0, false
	}
	return left.Cmp(right), true
}

func exact(number any) *big.Float {
	switch number := number.(type) {
	case int64:
		return new(big.Float).SetInt64(number)
	case float64:
		return big.NewFloat(number)
	default:
		return nil
	}
}

// TypeOf names the JSON type of a value, for messages that must not show the value.
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
