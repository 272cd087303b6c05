package objects

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Condition is a condition in the status of an object. A field of another type counts as empty.
type Condition struct{ Type, Status, Reason, Message string }

// Conditions returns the conditions of an object.
func Conditions(o *unstructured.Unstructured) []Condition {
	var conditions []Condition
	for _, c := range Maps(Child(o.Object, "status")["conditions"]) {
		text := func(name string) string {
			value, _ := c[name].(string)
			return value
		}
		conditions = append(conditions, Condition{text("type"), text("status"), text("reason"), text("message")})
	}
	return conditions
}

// HasCondition reports whether an object has a condition with the status True.
func HasCondition(o *unstructured.Unstructured, kind string) bool {
	return slices.ContainsFunc(Conditions(o), func(c Condition) bool { return c.Type == kind && c.Status == "True" })
}
