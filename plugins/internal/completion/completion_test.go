package completion_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/completion"
)

// TestCompletion: what kinds with an end say about it.
// Rule (manifest.md#objects-that-delete-themselves): Whether an object has completed is seen in its condition or its
// phase.
func TestCompletion(t *testing.T) {
	t.Parallel()
	conditions := func(status string, kinds ...string) map[string]any {
		var all []any
		for _, kind := range kinds {
			all = append(all, map[string]any{"type": kind, "status": status, "reason": "Of" + kind})
		}
		return map[string]any{"conditions": all}
	}
	ttl := map[string]any{"ttlSecondsAfterFinished": int64(0)}
	for name, c := range map[string]struct {
		reason, kind  string
		spec, status  map[string]any
		complete, may bool
		failure       string
	}{
		"job": {
			reason: "a Job has its own", kind: "batch/v1 Job", status: conditions("True", "Complete"),
			complete: true, may: true,
		},
		"running": {
			reason: "a running one is not", kind: "batch/v1 Job", status: conditions("False", "Complete", "Failed"),
		},
		"succeeded": {
			reason: "its Pods may run", kind: "batch/v1 Job", status: conditions("True", "SuccessCriteriaMet"),
			complete: true, may: true,
		},
		"failed": {
			reason: "nor is a failed one", kind: "batch/v1 Job", status: conditions("True", "Failed"), failure: "OfFailed",
		},
		"given up": {
			reason: "its Pods may run", kind: "batch/v1 Job", status: conditions("True", "FailureTarget"),
			failure: "OfFailureTarget",
		},
		"both": {
			reason: "a success is for good", kind: "batch/v1 Job", status: conditions("True", "FailureTarget", "Complete"),
			complete: true, may: true,
		},
		"job with a TTL": {reason: "it is deleted by itself", kind: "batch/v1 Job", spec: ttl, may: true},
		"pod": {
			reason: "a Pod has its phase", kind: "v1 Pod", status: map[string]any{"phase": "Succeeded"},
			complete: true, may: true,
		},
		"failed pod": {reason: "only Jobs fail here", kind: "v1 Pod", status: map[string]any{"phase": "Failed"}},
		"ready pod":  {reason: "a ready one runs", kind: "v1 Pod", status: conditions("True", "Ready", "Succeeded")},
		"others": {
			reason: "others are like Jobs", kind: "tekton.dev/v1 TaskRun", status: conditions("True", "Succeeded"),
			complete: true, may: true,
		},
		"failed others": {reason: "only Jobs fail here", kind: "tekton.dev/v1 TaskRun", status: conditions("True", "Failed")},
		"deployment":    {reason: "it is there to stay", kind: "apps/v1 Deployment", status: conditions("True", "Available")},
		"rollout": {
			reason: "Argo says so of an up-to-date one", kind: "argoproj.io/v1alpha1 Rollout",
			status: conditions("True", "Completed"),
		},
		"config map": {reason: "no status at all", kind: "v1 ConfigMap"},
	} {
		apiVersion, kind, _ := strings.Cut(c.kind, " ")
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": c.spec, "status": c.status,
		}}
		if complete, may := completion.IsComplete(o), completion.NeedNotStay(o); complete != c.complete || may != c.may {
			t.Errorf("%s: %s: found complete %t, need not stay %t", name, c.reason, complete, may)
		}
		if failure, failed := completion.Failure(o); failed != (c.failure != "") || failure.Reason != c.failure {
			t.Errorf("%s: %s: expected the failure %q, but found %v", name, c.reason, c.failure, failure)
		}
	}
}
