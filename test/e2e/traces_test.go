package e2e

import (
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// tracing are lines of a HostConfiguration that has jobs traced.
func tracing(endpoint string) string {
	return fmt.Sprintf("%stracing: {endpoint: %q, insecure: true}\n"+
		"plugins: {manifest: {environment: [OTEL_EXPORTER_OTLP_ENDPOINT]}}\n", anyConfig, endpoint)
}

// TestTraceOfAJob: host and plugin make one trace of a job, whose spans are where they belong, and say nothing of what
// is deployed.
// Rule (SECURITY.md#secrets): Traces hold no secret.
func TestTraceOfAJob(t *testing.T) {
	collector := testenv.StartCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+collector.Address)
	startReadyHost(t, testenv.HostOptions{
		PluginDir: pluginDir(t, "manifest"), Config: writeConfig(t, tracing(collector.Address)),
	})
	namespace := newNamespace(t)
	createTarget(t, namespace, "target")
	const marker = "cucumber-sandwich"
	secret := manifest("v1", "Secret", namespace, "deployed", object{"stringData": object{"password": marker}})
	item := manifestItem(namespace, "item", "target", secret)
	finished := carryOut(t, item, succeeded)

	var spans []testenv.Span
	eventually(t, "the spans of the job", func(context.Context) (string, error) {
		spans = spansOf(collector.Spans(), finished.Status.JobID)
		return misplaced(spans, finished.Status.JobID), nil
	})
	rejected := manifest("v1", "Secret", namespace, "rejected", map[string]any{
		"type": "kubernetes.io/dockerconfigjson", "stringData": map[string]any{".dockerconfigjson": marker},
	})
	failed := carryOut(t, manifestItem(namespace, "failing", "target", rejected), failed)
	eventually(t, "the spans of the job that fails", func(context.Context) (string, error) {
		spans = collector.Spans()
		return untold(spans, failed), nil
	})
	for _, s := range spans {
		text := fmt.Sprint(s)
		for _, hidden := range []string{marker, base64.StdEncoding.EncodeToString([]byte(marker)), "kubeconfig:", "BEGIN"} {
			if strings.Contains(text, hidden) {
				t.Errorf("span %s says %q: %s", s.Name, hidden, text)
			}
		}
	}
}

// untold says what is missing in the spans of a job that has failed because the target has refused something; empty if
// nothing is.
func untold(spans []testenv.Span, failed *v1alpha1.DeployItem) string {
	job := slices.IndexFunc(spans, func(s testenv.Span) bool {
		return s.Name == "Job Reconcile" && s.Attributes["pergola.job.id"] == failed.Status.JobID
	})
	if job < 0 || !spans[job].Failed || spans[job].Message != failed.Status.LastError.Message {
		return fmt.Sprintf("there is no job that has failed with %q", failed.Status.LastError.Message)
	}
	if !slices.ContainsFunc(spans, func(s testenv.Span) bool {
		return s.TraceID == spans[job].TraceID && s.Service == "pergola-manifest" && s.Failed
	}) {
		return "there is no request that the target has refused"
	}
	return ""
}

// spansOf are the spans of the trace of a job: items that earlier tests have left are looked at as well.
func spansOf(all []testenv.Span, jobID string) []testenv.Span {
	i := slices.IndexFunc(all, func(s testenv.Span) bool { return s.Attributes["pergola.job.id"] == jobID })
	if i < 0 {
		return nil
	}
	trace := all[i].TraceID
	return slices.DeleteFunc(all, func(s testenv.Span) bool { return s.TraceID != trace })
}

// misplaced says what is missing or wrong with the spans of a job that was carried out once; empty if nothing is.
func misplaced(spans []testenv.Span, jobID string) string {
	ids := map[string]testenv.Span{}
	for _, s := range spans {
		ids[s.ID] = s
	}
	found := map[string]bool{}
	for _, s := range spans {
		path := s.Service + " " + s.Name
		if s.Parent != "" {
			parent, ok := ids[s.Parent]
			if !ok {
				return fmt.Sprintf("%s has a parent that nobody has sent", path)
			}
			path += " in " + parent.Name
		}
		if s.Service == "pergola" && s.Attributes["pergola.job.id"] != jobID {
			return fmt.Sprintf("%s is part of another job: %+v", path, s)
		}
		found[path] = true
	}
	for _, want := range []string{
		"pergola Job Reconcile", "pergola Call Reconcile in Job Reconcile",
		"pergola Request PATCH deployitems/status in Job Reconcile",
		"pergola Request PATCH deployitems/status in Call Reconcile", "pergola-manifest POST target in Call Reconcile",
	} {
		if !found[want] {
			return fmt.Sprintf("there is no span %q in %v", want, found)
		}
	}
	return ""
}
