package readiness_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/pergola-deploy/pergola/plugins/internal/readiness"
)

type fields = map[string]any

func TestCheck(t *testing.T) {
	t.Parallel()
	condition := func(kind, status, reason string) fields {
		return fields{"type": kind, "status": status, "reason": reason, "message": "because"}
	}
	for name, c := range map[string]struct {
		reason          string
		apiVersion      string
		kind            string
		spec, status    fields
		waiting, failed string
	}{
		"config map": {reason: "a kind without a status is ready", apiVersion: "v1", kind: "ConfigMap"},
		"new deployment": {
			reason: "a workload waits for its replicas", apiVersion: "apps/v1", kind: "Deployment",
			spec: fields{"replicas": int64(1)}, waiting: "Deployment n/a: ",
		},
		"outdated status": {
			reason: "a status of an older generation does not count", apiVersion: "example.org/v1", kind: "Thing",
			status: fields{"observedGeneration": int64(1), "conditions": []any{condition("Ready", "True", "")}}, waiting: "generation",
		},
		"condition": {
			reason: "custom resources are judged by their conditions", apiVersion: "example.org/v1", kind: "Thing",
			status: fields{"conditions": []any{condition("Ready", "False", "NotYet")}}, waiting: "Thing n/a: because",
		},
		"failed job": {
			reason: "a Job that has given up is not waited for", apiVersion: "batch/v1", kind: "Job",
			status: fields{"conditions": []any{condition("Failed", "True", "BackoffLimitExceeded")}}, failed: "Job n/a: ",
		},
		"unreadable": {
			reason: "a status that nobody can read is not taken for a good one", apiVersion: "apps/v1", kind: "Deployment",
			status: fields{"conditions": "nonsense"}, waiting: "cannot be read",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := &unstructured.Unstructured{Object: fields{
				"apiVersion": c.apiVersion, "kind": c.kind, "metadata": fields{"name": "a", "namespace": "n", "generation": int64(2)},
			}}
			if c.spec != nil {
				o.Object["spec"] = c.spec
			}
			if c.status != nil {
				o.Object["status"] = c.status
			}
			v := readiness.Check([]*unstructured.Unstructured{o})
			for what, texts := range map[string]struct {
				want string
				got  []string
			}{"waiting": {c.waiting, v.Waiting}, "failed": {c.failed, v.Failed}} {
				if (texts.want != "") != (len(texts.got) == 1) || !strings.Contains(strings.Join(texts.got, ""), texts.want) {
					t.Errorf("%s: %s: expected %q, but found %q", c.reason, what, texts.want, texts.got)
				}
			}
		})
	}
}
