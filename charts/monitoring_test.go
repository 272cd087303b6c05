package charts

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/pergola-deploy/pergola/test/testenv"
)

// serviceMonitor has the fields of that kind that the chart uses.
type serviceMonitor struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Selector  metav1.LabelSelector `json:"selector"`
		Endpoints []struct {
			Port     string `json:"port"`
			Path     string `json:"path"`
			Interval string `json:"interval"`
		} `json:"endpoints"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object. Nothing is changed here.
func (s *serviceMonitor) DeepCopyObject() runtime.Object { return s }

// prometheusRule has the fields of that kind that the chart uses.
type prometheusRule struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         metav1.Duration   `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	} `json:"spec"`
}

// DeepCopyObject implements runtime.Object. Nothing is changed here.
func (p *prometheusRule) DeepCopyObject() runtime.Object { return p }

// monitored is a cluster with the Prometheus operator.
var monitored = cluster{
	version: newest.version,
	kinds:   []string{"monitoring.coreos.com/v1/ServiceMonitor", "monitoring.coreos.com/v1/PrometheusRule"},
}

func addMonitoring(scheme *runtime.Scheme) {
	version := schema.GroupVersion{Group: "monitoring.coreos.com", Version: "v1"}
	scheme.AddKnownTypeWithName(version.WithKind("ServiceMonitor"), &serviceMonitor{})
	scheme.AddKnownTypeWithName(version.WithKind("PrometheusRule"), &prometheusRule{})
}

const monitoring = `
metrics:
  serviceMonitor: {enabled: true, labels: {team: a}}
  prometheusRule: {enabled: true}
  dashboard: {enabled: true}
`

func TestMonitoring(t *testing.T) {
	all := mustRender(t, monitoring, monitored)
	monitor := one[*serviceMonitor](t, all, "ServiceMonitor pergola-system/pergola")
	service := one[*corev1.Service](t, all, "Service pergola-system/pergola")
	for key, value := range monitor.Spec.Selector.MatchLabels {
		if service.Labels[key] != value {
			t.Errorf("the ServiceMonitor wants the label %s=%s, but the Service has %v", key, value, service.Labels)
		}
	}
	if monitor.Labels["team"] != "a" || monitor.Spec.Endpoints[0].Port != service.Spec.Ports[0].Name {
		t.Errorf("expected its label and the port of the Service, but found %v and %v", monitor.Labels,
			monitor.Spec.Endpoints)
	}
	rules := one[*prometheusRule](t, all, "PrometheusRule pergola-system/pergola")
	for _, rule := range rules.Spec.Groups[0].Rules {
		if !strings.Contains(rule.Expr, `{namespace="pergola-system",service="pergola"`) ||
			strings.Contains(rule.Expr, "$SELECTOR") {
			t.Errorf("%s: expected the Pods of the release alone, but found %s", rule.Alert, rule.Expr)
		}
		if rule.Annotations["summary"] == "" || rule.Annotations["description"] == "" || rule.Labels["severity"] == "" {
			t.Errorf("%s: expected summary, description and severity, but found %v, %v", rule.Alert, rule.Annotations,
				rule.Labels)
		}
	}
	dashboard := one[*corev1.ConfigMap](t, all, "ConfigMap pergola-system/pergola-dashboard")
	if !json.Valid([]byte(dashboard.Data["pergola.json"])) || dashboard.Labels["grafana_dashboard"] != "1" {
		t.Errorf("expected JSON and the label of the sidecar, but found %v", dashboard.Labels)
	}
}

// A cluster without the kinds is told what to do, and nothing is left out without a word.
func TestMonitoringWithoutOperator(t *testing.T) {
	for value, kind := range map[string]string{"serviceMonitor": "ServiceMonitor", "prometheusRule": "PrometheusRule"} {
		_, err := render(t, fmt.Sprintf("metrics: {%s: {enabled: true}}", value), newest)
		wants := fmt.Sprintf("metrics.%s.enabled: this cluster does not know the kind %s of monitoring.coreos.com/v1; "+
			"install the Prometheus operator, or set it to false", value, kind)
		if err == nil || !strings.Contains(err.Error(), wants) {
			t.Errorf("expected %q, but found: %v", wants, err)
		}
	}
}

var (
	metric     = regexp.MustCompile(`pergola_[a-z_]+`)
	documented = regexp.MustCompile("(?m)^\\| `(pergola_[a-z_]+)")
)

// Alerts and dashboard are made of metrics that the page describes.
func TestMetricsAreDocumented(t *testing.T) {
	known := map[string]bool{}
	page := read(t, filepath.Join(testenv.Root(), "docs", "telemetry.md"))
	for _, found := range documented.FindAllStringSubmatch(page, -1) {
		known[found[1]] = true
	}
	for _, file := range []string{"alerts.yaml", "dashboard.json"} {
		found := metric.FindAllString(read(t, filepath.Join(testenv.Root(), "charts", "pergola", "files", file)), -1)
		slices.Sort(found)
		for _, name := range slices.Compact(found) {
			if !known[strings.TrimSuffix(name, "_bucket")] {
				t.Errorf("%s: docs/telemetry.md does not describe %s", file, name)
			}
		}
	}
}

func read(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
