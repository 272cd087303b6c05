package readiness

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// completeConditions are the types of conditions by which an object says that it has done its work: those of Jobs, and
// what others have made of them, such as the runs of Tekton. Completed is none: a Rollout of Argo that is up to date
// has it.
var completeConditions = []string{"Complete", "SuccessCriteriaMet", "Succeeded"}

// IsComplete tells whether an object has done its work with success, and will do nothing more.
func IsComplete(o *unstructured.Unstructured) bool {
	if o.GroupVersionKind().GroupKind() == (schema.GroupKind{Kind: "Pod"}) {
		return text(o.Object, "status", "phase") == "Succeeded"
	}
	return slices.ContainsFunc(completeConditions, func(kind string) bool {
		_, ok := isTrue(o, kind)
		return ok
	})
}

// HasFailed tells whether an object is a Job that has given up.
func HasFailed(o *unstructured.Unstructured) bool {
	return o.GroupVersionKind().GroupKind() == (schema.GroupKind{Group: "batch", Kind: "Job"}) && judgeJob(Object{Live: o}).phase == failed
}

// NeedNotStay tells whether nobody misses an object when it is gone: it is complete, or is deleted by itself when it
// has finished.
func NeedNotStay(o *unstructured.Unstructured) bool {
	return IsComplete(o) || value(o.Object, "spec", "ttlSecondsAfterFinished") != nil
}
