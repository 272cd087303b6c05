package e2e

import (
	"context"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// family is a metric with its labels, in order.
type family struct {
	Type   string
	Labels string
}

// TestMetricsAreDocumented: docs/telemetry.md lists the metrics that a host has, with their labels, and no others but
// those of its plugins.
// Rule (telemetry.md#metrics-of-plugins): A host shows the metrics of its plugins.
func TestMetricsAreDocumented(t *testing.T) {
	f := newFleet(t)
	f.options.Config = tracedConfig(t, traceFile(t))
	f.options.PluginDir = pluginDir(t, "tracer")
	createAutoscaler(t, f.namespace)
	server := newHookServer(t)
	server.Start()
	registered := registration(f.namespace, server.URL, bothPhases, traceType)
	register(t, registered)
	r := f.start(1)[0]
	waitRegistered(t, registered, v1alpha1.ConditionTrue)
	item := newItem(newNamespace(t), "item", traceType, tracerConfig(t, nil))
	carryOut(t, item, succeeded)

	documented := documentedMetrics(t)
	documented["plugin_tracer_requests_total"] = family{Type: "counter"}
	eventually(t, "the documented metrics", func(ctx context.Context) (string, error) {
		shown, err := shownMetrics(ctx, r.URL)
		if err != nil {
			return "", err
		}
		return cmp.Diff(documented, shown), nil
	})
}

// createAutoscaler creates an autoscaler that knows everything about its pods.
func createAutoscaler(t *testing.T, namespace string) {
	t.Helper()
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "pergola"},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{
				APIVersion: "apps/v1", Kind: "Deployment", Name: "pergola",
			}, MaxReplicas: 3,
		},
	}
	create(t, autoscaler)
	before := autoscaler.DeepCopy()
	autoscaler.Status.CurrentMetrics = []autoscalingv2.MetricStatus{{
		Type: autoscalingv2.ResourceMetricSourceType,
		Resource: &autoscalingv2.ResourceMetricStatus{Name: corev1.ResourceCPU, Current: autoscalingv2.MetricValueStatus{
			AverageUtilization: ptr.To[int32](50), AverageValue: ptr.To(resource.MustParse("1")),
		}},
	}}
	if err := admin.Status().Patch(t.Context(), autoscaler, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

var (
	documentedRow = regexp.MustCompile("^\\| `(pergola_\\w+)(?:\\{([\\w,]*)\\})?` \\| (\\w+) \\|")
	shownType     = regexp.MustCompile(`^# TYPE ((?:pergola|plugin)_\w+) (\w+)$`)
	shownSeries   = regexp.MustCompile(`^((?:pergola|plugin)_\w+)(?:\{(.*)\})? \S+$`)
	shownLabel    = regexp.MustCompile(`(\w+)="(?:[^"\\]|\\.)*"`)
)

// documentedMetrics are those of the table in docs/telemetry.md.
func documentedMetrics(t *testing.T) map[string]family {
	t.Helper()
	page, err := os.ReadFile("../../docs/telemetry.md")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]family{}
	for line := range strings.Lines(string(page)) {
		if row := documentedRow.FindStringSubmatch(line); row != nil {
			found[row[1]] = family{Type: row[3], Labels: sorted(strings.Split(row[2], ","))}
		}
	}
	return found
}

func sorted(labels []string) string {
	slices.Sort(labels)
	return strings.Join(labels, ",")
}

// shownMetrics are those of Pergola's that a host shows.
func shownMetrics(ctx context.Context, url string) (map[string]family, error) {
	body, err := fetch(ctx, url+"/metrics")
	found := map[string]family{}
	for line := range strings.SplitSeq(body, "\n") {
		if kind := shownType.FindStringSubmatch(line); kind != nil {
			found[kind[1]] = family{Type: kind[2]}
			continue
		}
		series := shownSeries.FindStringSubmatch(line)
		if series == nil {
			continue
		}
		name := nameOf(found, series[1])
		labels := map[string]bool{}
		for _, label := range shownLabel.FindAllStringSubmatch(series[2], -1) {
			labels[label[1]] = true
		}
		if found[name].Type == "histogram" {
			delete(labels, "le")
		}
		found[name] = family{Type: found[name].Type, Labels: sorted(slices.Collect(maps.Keys(labels)))}
	}
	return found, err
}

// nameOf is the metric that a series belongs to: those of a histogram have endings.
func nameOf(metrics map[string]family, series string) string {
	for _, ending := range []string{"", "_bucket", "_sum", "_count"} {
		name := strings.TrimSuffix(series, ending)
		if _, ok := metrics[name]; ok {
			return name
		}
	}
	return series
}
