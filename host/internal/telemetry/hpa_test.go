package telemetry

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// hpaRecord is how each record of an autoscaler begins.
const hpaRecord = `{"level":"INFO","msg":"HPA Statistics","logger":"controllers.landscaper-monitoring","resource":`

// measured is what an autoscaler has measured of a resource of the pods; a value of "" and a utilization of 0 are
// missing.
func measured(name corev1.ResourceName, value string, utilization int32) autoscalingv2.MetricStatus {
	status := &autoscalingv2.ResourceMetricStatus{Name: name}
	if value != "" {
		status.Current.AverageValue = new(resource.MustParse(value))
	}
	if utilization != 0 {
		status.Current.AverageUtilization = new(utilization)
	}
	return autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: status}
}

// autoscaler is one of the namespace ls-system.
func autoscaler(name string, current, desired int32, metrics ...autoscalingv2.MetricStatus) client.Object {
	return &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ls-system", Name: name},
		Status: autoscalingv2.HorizontalPodAutoscalerStatus{
			CurrentReplicas: current, DesiredReplicas: desired, CurrentMetrics: metrics,
		},
	}
}

// startHPA starts the statistics of the namespace ls-system in a bubble, which end with the test.
func startHPA(t *testing.T, reader client.Reader, elected func() bool, log *slog.Logger) *HPAStatistics {
	t.Helper()
	statistics := NewHPAStatistics(HPAOptions{Reader: reader, Namespace: "ls-system", Elected: elected, Log: log})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error)
	go func() { ended <- statistics.Start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("expected the statistics to stop in order, but found %v", err)
		}
	})
	synctest.Wait()
	return statistics
}

// The log is that of Landscaper. What was not measured is no zero, and the order is always the same.
// Rule (telemetry.md#the-log): Figures of autoscalers are logged in Landscaper's form.
func TestHPAStatistics(t *testing.T) {
	t.Parallel()
	elsewhere := autoscaler("elsewhere", 1, 1)
	elsewhere.SetNamespace("other")
	reader := fake.NewClientBuilder().WithObjects(
		elsewhere,
		autoscaler("helm-default-helm-deployer", 3, 3, // the example in Landscaper's documentation
			measured(corev1.ResourceMemory, "64625322666m", 20), measured(corev1.ResourceCPU, "325m", 108)),
		autoscaler("a", 1, 2, measured(corev1.ResourceCPU, "2", 0), measured(corev1.ResourceMemory, "1536Mi", 75)),
		autoscaler("b", 0, 0, autoscalingv2.MetricStatus{Type: autoscalingv2.ContainerResourceMetricSourceType}),
	).Build()
	wantLines := []string{
		hpaRecord + `"ls-system/a","currentReplicas":1,"desiredReplicas":2,` +
			`"memoryAverageUtilization":75,"memoryAverageValue":"1536Mi","cpuAverageValue":"2"}` + "\n",
		hpaRecord + `"ls-system/b","currentReplicas":0,"desiredReplicas":0}` + "\n",
		hpaRecord + `"ls-system/helm-default-helm-deployer","currentReplicas":3,"desiredReplicas":3,` +
			`"memoryAverageUtilization":20,"memoryAverageValue":"64625322666m",` +
			`"cpuAverageUtilization":108,"cpuAverageValue":"325m"}` + "\n",
	}
	wantMetrics := []string{
		`pergola_hpa_average_utilization_percent{hpa="a",resource="memory"} 75`,
		`pergola_hpa_average_utilization_percent{hpa="helm-default-helm-deployer",resource="cpu"} 108`,
		`pergola_hpa_average_utilization_percent{hpa="helm-default-helm-deployer",resource="memory"} 20`,
		`pergola_hpa_average_value{hpa="a",resource="cpu"} 2`,
		`pergola_hpa_average_value{hpa="a",resource="memory"} 1.610612736e+09`,
		`pergola_hpa_average_value{hpa="helm-default-helm-deployer",resource="cpu"} 0.325`,
		`pergola_hpa_average_value{hpa="helm-default-helm-deployer",resource="memory"} 6.4625322666e+07`,
		`pergola_hpa_current_replicas{hpa="a"} 1`,
		`pergola_hpa_current_replicas{hpa="b"} 0`,
		`pergola_hpa_current_replicas{hpa="helm-default-helm-deployer"} 3`,
		`pergola_hpa_desired_replicas{hpa="a"} 2`,
		`pergola_hpa_desired_replicas{hpa="b"} 0`,
		`pergola_hpa_desired_replicas{hpa="helm-default-helm-deployer"} 3`,
	}
	synctest.Test(t, func(t *testing.T) {
		log, lines := newLog()
		statistics := startHPA(t, reader, func() bool { return true }, log)
		if diff := cmp.Diff(wantLines, lines()); diff != "" {
			t.Errorf("log (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(wantMetrics, samples(t, statistics.Collector())); diff != "" {
			t.Errorf("metrics (-want +got):\n%s", diff)
		}
	})
}

// A replica lists while it is elected. An error ends nothing, and is logged when it is another one than before.
func TestHPAStatisticsOverTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		warning := func(err string) []string {
			return []string{`{"level":"WARN","msg":"there are no HPA statistics","namespace":"ls-system",` +
				`"error":"list HorizontalPodAutoscalers: ` + err + "\"}\n"}
		}
		figures := []string{hpaRecord + `"ls-system/a","currentReplicas":1,"desiredReplicas":1}` + "\n"}
		wrong, down := errors.New("wrong"), errors.New("down")
		forbidden := apierrors.NewForbidden(schema.GroupResource{}, "", nil)
		var problem error
		reader := fake.NewClientBuilder().WithObjects(autoscaler("a", 1, 1)).WithInterceptorFuncs(interceptor.Funcs{
			List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, options ...client.ListOption) error {
				if problem != nil {
					return problem
				}
				return c.List(ctx, list, options...)
			},
		}).Build()
		var elected atomic.Bool
		log, lines := newLog()
		statistics := startHPA(t, reader, elected.Load, log)
		for _, step := range []struct {
			reason  string
			elected bool
			problem error
			lines   []string
			series  int
		}{
			{reason: "not elected"},
			{reason: "elected", elected: true, lines: figures, series: 2},
			{reason: "still elected", elected: true, lines: figures, series: 2},
			{reason: "an error; old figures are none", elected: true, problem: wrong, lines: warning("wrong")},
			{reason: "the same error", elected: true, problem: wrong},
			{reason: "another error", elected: true, problem: down, lines: warning("down")},
			{reason: "no error", elected: true, lines: figures, series: 2},
			{reason: "an error again", elected: true, problem: down, lines: warning("down")},
			{reason: "elected, with figures", elected: true, lines: figures, series: 2},
			{reason: "no right, as without an autoscaler", elected: true, problem: forbidden},
			{reason: "not elected any more"},
		} {
			problem = step.problem
			elected.Store(step.elected) // who lists has seen the problem, too
			if got := samples(t, statistics.Collector()); !step.elected && len(got) != 0 {
				t.Errorf("%s: expected no series at once, but found %v", step.reason, got)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			if diff := cmp.Diff(step.lines, lines()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.reason, diff)
			}
			if got := samples(t, statistics.Collector()); len(got) != step.series {
				t.Errorf("%s: expected %d series, but found %v", step.reason, step.series, got)
			}
		}
	})
}
