package charts

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// Labels of operators never take the place of those by which the chart knows its Pods, and each label is there once.
func TestLabels(t *testing.T) {
	const theirs = "{app.kubernetes.io/name: x, app.kubernetes.io/instance: x, app.kubernetes.io/component: x, " +
		"app.kubernetes.io/managed-by: x, team: %}"
	with := func(team string) string { return strings.ReplaceAll(theirs, "%", team) }
	all := mustRender(t, `
commonLabels: `+with("all")+`
podLabels: `+with("pods")+`
plugins: {container: {pods: {namespaceLabels: `+with("namespace")+`}}}
metrics:
  serviceMonitor: {enabled: true, labels: `+with("monitor")+`}
  prometheusRule: {enabled: true, labels: `+with("rule")+`}
  dashboard: {enabled: true, labels: `+with("dashboard")+`}
`, monitored)
	teams := map[string]string{
		"Namespace pergola-pods": "namespace", "ServiceMonitor pergola-system/pergola": "monitor",
		"PrometheusRule pergola-system/pergola": "rule", "ConfigMap pergola-system/pergola-dashboard": "dashboard",
	}
	for _, key := range slices.Sorted(maps.Keys(all)) {
		labels := all[key].GetLabels()
		if labels["app.kubernetes.io/name"] != "pergola" || labels["app.kubernetes.io/instance"] != releaseName ||
			labels["app.kubernetes.io/managed-by"] != "Helm" {
			t.Errorf("%s: expected the labels of the chart, but found %v", key, labels)
		}
		team := teams[key]
		if team == "" {
			team = "all"
		}
		if labels["team"] != team {
			t.Errorf("%s: expected the label team=%s, but found %v", key, team, labels)
		}
	}
	deployment := one[*appsv1.Deployment](t, all, "Deployment pergola-system/pergola")
	want := map[string]string{
		"app.kubernetes.io/name": "pergola", "app.kubernetes.io/instance": releaseName, "app.kubernetes.io/component": "host",
		"app.kubernetes.io/managed-by": "x", "team": "pods",
	}
	if diff := cmp.Diff(want, deployment.Spec.Template.Labels); diff != "" {
		t.Errorf("labels of Pods (-want +got):\n%s", diff)
	}
	for _, selector := range []map[string]string{
		deployment.Spec.Selector.MatchLabels, one[*corev1.Service](t, all, "Service pergola-system/pergola").Spec.Selector,
	} {
		for key, value := range selector {
			if want[key] != value {
				t.Errorf("expected the Pods to have %s=%s", key, value)
			}
		}
	}
}
