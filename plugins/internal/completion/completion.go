// Package completion reports whether objects have finished their work: Jobs, Pods, and similar kinds. The absence of
// such an object is no loss.
package completion

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/plugins/internal/object"
)

// completeConditions are the types of conditions for finished work: those of Jobs, and those of similar kinds, such
// as the runs of Tekton. Completed is none: an up-to-date Rollout of Argo has it.
var completeConditions = []string{"Complete", "SuccessCriteriaMet", "Succeeded"}

// failedConditions are those of a failed Job; it gets the second one before the end of its Pods.
var failedConditions = []string{"Failed", "FailureTarget"}

// IsComplete reports whether an object has finished its work with success, for good.
func IsComplete(o *unstructured.Unstructured) bool {
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		return object.Text(o.Object, "status", "phase") == "Succeeded"
	}
	return slices.ContainsFunc(completeConditions, func(kind string) bool {
		_, ok := object.TrueCondition(o, kind)
		return ok
	})
}

// Failure returns the condition of a failed Job; no other object has one.
func Failure(o *unstructured.Unstructured) (failure object.Condition, failed bool) {
	if o.GroupVersionKind().GroupKind() != (schema.GroupKind{Group: "batch", Kind: "Job"}) || IsComplete(o) {
		return object.Condition{}, false
	}
	for _, kind := range failedConditions {
		if c, ok := object.TrueCondition(o, kind); ok {
			return c, true
		}
	}
	return object.Condition{}, false
}

// NeedNotStay reports whether an object may be gone without loss: it is complete, or is deleted by itself after its
// end.
func NeedNotStay(o *unstructured.Unstructured) bool {
	return IsComplete(o) || object.Value(o.Object, "spec", "ttlSecondsAfterFinished") != nil
}
