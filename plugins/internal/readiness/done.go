package readiness

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// completeConditions are the types of conditions for finished work: those of Jobs, and those of similar kinds, such
// as the runs of Tekton. Completed is none: an up-to-date Rollout of Argo has it.
var completeConditions = []string{"Complete", "SuccessCriteriaMet", "Succeeded"}

// IsComplete reports whether an object has finished its work with success, for good.
func IsComplete(o *unstructured.Unstructured) bool {
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		return text(o.Object, "status", "phase") == "Succeeded"
	}
	return slices.ContainsFunc(completeConditions, func(kind string) bool {
		_, ok := isTrue(o, kind)
		return ok
	})
}

// HasFailed reports whether an object is a failed Job.
func HasFailed(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "batch", Kind: "Job"}) && judgeJob(Object{Live: o}).phase == failed
}

// NeedNotStay reports whether an object may be gone without loss: it is complete, or is deleted by itself after its
// end.
func NeedNotStay(o *unstructured.Unstructured) bool {
	return IsComplete(o) || value(o.Object, "spec", "ttlSecondsAfterFinished") != nil
}
