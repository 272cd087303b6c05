package readiness_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
)

// Rule (manifest.md#objects-that-delete-themselves): Whether an object has completed is seen in its condition or its
// phase.
func TestIsComplete(t *testing.T) {
	t.Parallel()
	conditions := func(kind, status string) map[string]any {
		return map[string]any{"conditions": []any{map[string]any{"type": kind, "status": status}}}
	}
	for name, c := range map[string]struct {
		reason, apiVersion, kind string
		status                   map[string]any
		want                     bool
	}{
		"job":        {reason: "a Job has its own", apiVersion: "batch/v1", kind: "Job", status: conditions("Complete", "True"), want: true},
		"running":    {reason: "one that runs is not", apiVersion: "batch/v1", kind: "Job", status: conditions("Complete", "False")},
		"failed":     {reason: "nor one that failed", apiVersion: "batch/v1", kind: "Job", status: conditions("Failed", "True")},
		"pod":        {reason: "a Pod has its phase", apiVersion: "v1", kind: "Pod", status: map[string]any{"phase": "Succeeded"}, want: true},
		"ready pod":  {reason: "one that is ready runs", apiVersion: "v1", kind: "Pod", status: conditions("Ready", "True")},
		"others":     {reason: "others are like Jobs", apiVersion: "tekton.dev/v1", kind: "TaskRun", status: conditions("Succeeded", "True"), want: true},
		"deployment": {reason: "what is there to stay", apiVersion: "apps/v1", kind: "Deployment", status: conditions("Available", "True")},
		"rollout": {
			reason: "Argo says so of one that is up to date", apiVersion: "argoproj.io/v1alpha1", kind: "Rollout",
			status: conditions("Completed", "True"),
		},
		"config map": {reason: "no status at all", apiVersion: "v1", kind: "ConfigMap"},
	} {
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.apiVersion, "kind": c.kind, "status": c.status}}
		if got := readiness.IsComplete(o); got != c.want {
			t.Errorf("%s: %s: expected %t, but found %t", name, c.reason, c.want, got)
		}
	}
}
