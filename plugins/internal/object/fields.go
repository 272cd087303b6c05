package object

import (
	"fmt"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// The readers of fields take objects of any shape: a field of another shape counts as missing.

// Value returns the value at a path; nil if it is missing.
func Value(in map[string]any, path ...string) any {
	found, ok, err := unstructured.NestedFieldNoCopy(in, path...)
	if !ok || err != nil {
		return nil
	}
	return found
}

// Child returns the map at a path, itself and not a copy; nil if it is missing.
func Child(in map[string]any, path ...string) map[string]any {
	m, _ := Value(in, path...).(map[string]any)
	return m
}

// Text returns the string at a path; empty if it is missing.
func Text(in map[string]any, path ...string) string {
	s, _ := Value(in, path...).(string)
	return s
}

// Number returns the integer at a path.
func Number(in map[string]any, path ...string) (n int64, ok bool) {
	n, ok = Value(in, path...).(int64)
	return n, ok
}

// Count returns the integer at a path; zero if it is missing.
func Count(in map[string]any, path ...string) int64 {
	n, _ := Number(in, path...)
	return n
}

// Maps returns the maps in the list at a path.
func Maps(in map[string]any, path ...string) []map[string]any {
	entries, _ := Value(in, path...).([]any)
	var maps []map[string]any
	for _, entry := range entries {
		if m, ok := entry.(map[string]any); ok {
			maps = append(maps, m)
		}
	}
	return maps
}

// Condition of an object, as far as it is readable.
type Condition struct {
	Type, Status, Reason, Message string
	// Generation is the observed one; nil if unknown.
	Generation *int64
}

// Conditions returns the conditions of an object in its status.
func Conditions(o *unstructured.Unstructured) []Condition {
	var all []Condition
	for _, entry := range Maps(o.Object, "status", "conditions") {
		c := Condition{
			Type: Text(entry, "type"), Status: Text(entry, "status"),
			Reason: Text(entry, "reason"), Message: Text(entry, "message"),
		}
		if n, ok := Number(entry, "observedGeneration"); ok {
			c.Generation = &n
		}
		all = append(all, c)
	}
	return all
}

// ConditionOf returns the first condition of a type.
func ConditionOf(o *unstructured.Unstructured, kind string) (Condition, bool) {
	for _, c := range Conditions(o) {
		if c.Type == kind {
			return c, true
		}
	}
	return Condition{}, false
}

// TrueCondition is ConditionOf for a condition with the status True.
func TrueCondition(o *unstructured.Unstructured, kind string) (Condition, bool) {
	c, ok := ConditionOf(o, kind)
	return c, ok && c.Status == "True"
}

// String returns the message of a condition, or else its reason, or else its status.
func (c Condition) String() string {
	switch {
	case c.Message != "" && c.Reason != "":
		return c.Reason + ": " + c.Message
	case c.Message != "" || c.Reason != "":
		return c.Message + c.Reason
	default:
		return fmt.Sprintf("its condition %s is %s", c.Type, c.Status)
	}
}
