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
	for name, c := range map[string]struct {
		kind          string
		spec, status  map[string]any
		complete, may bool
		failure       string
	}{
		"job":               {"batch/v1 Job", nil, conditions("True", "Complete"), true, true, ""},
		"running job":       {"batch/v1 Job", nil, conditions("False", "Complete", "Failed"), false, false, ""},
		"job, its Pods run": {"batch/v1 Job", nil, conditions("True", "SuccessCriteriaMet"), true, true, ""},
		"failed job":        {"batch/v1 Job", nil, conditions("True", "Failed"), false, false, "OfFailed"},
		"failing job":       {"batch/v1 Job", nil, conditions("True", "FailureTarget"), false, false, "OfFailureTarget"},
		"job with both":     {"batch/v1 Job", nil, conditions("True", "FailureTarget", "Complete"), true, true, ""},
		"job with a TTL":    {"batch/v1 Job", map[string]any{"ttlSecondsAfterFinished": int64(0)}, nil, false, true, ""},
		"pod":               {"v1 Pod", nil, map[string]any{"phase": "Succeeded"}, true, true, ""},
		"failed pod":        {"v1 Pod", nil, map[string]any{"phase": "Failed"}, false, false, ""},
		"ready pod":         {"v1 Pod", nil, conditions("True", "Ready", "Succeeded"), false, false, ""},
		"others":            {"tekton.dev/v1 TaskRun", nil, conditions("True", "Succeeded"), true, true, ""},
		"failed others":     {"tekton.dev/v1 TaskRun", nil, conditions("True", "Failed"), false, false, ""},
		"deployment":        {"apps/v1 Deployment", nil, conditions("True", "Available"), false, false, ""},
		"Argo's rollout":    {"argoproj.io/v1alpha1 Rollout", nil, conditions("True", "Completed"), false, false, ""},
		"no status":         {"v1 ConfigMap", nil, nil, false, false, ""},
	} {
		apiVersion, kind, _ := strings.Cut(c.kind, " ")
		o := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": apiVersion, "kind": kind, "spec": c.spec, "status": c.status,
		}}
		if complete, may := completion.IsComplete(o), completion.NeedNotStay(o); complete != c.complete || may != c.may {
			t.Errorf("%s: found complete %t, need not stay %t", name, complete, may)
		}
		if failure, failed := completion.Failure(o); failed != (c.failure != "") || failure.Reason != c.failure {
			t.Errorf("%s: expected the failure %q, but found %v", name, c.failure, failure)
		}
	}
}
