package telemetry_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/pergola-deploy/pergola/host/internal/telemetry"
)

// hpaRecord is how each record of an autoscaler begins.
const hpaRecord = `{"level":"INFO","msg":"HPA Statistics","logger":"controllers.landscaper-monitoring","resource":`

// measured is what an autoscaler has measured of a resource of the pods; a value of "" and a utilization of 0 are missing.
func measured(name corev1.ResourceName, value string, utilization int32) autoscalingv2.MetricStatus {
	status := &autoscalingv2.ResourceMetricStatus{Name: name}
	if value != "" {
		status.Current.AverageValue = ptr.To(resource.MustParse(value))
	}
	if utilization != 0 {
		status.Current.AverageUtilization = ptr.To(utilization)
	}
	return autoscalingv2.MetricStatus{Type: autoscalingv2.ResourceMetricSourceType, Resource: status}
}

// createAutoscaler creates an autoscaler, and its namespace if need be, with a status as the controller manager writes it.
func createAutoscaler(t *testing.T, namespace, name string, current, desired int32, metrics ...autoscalingv2.MetricStatus) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: namespace}}
	if err := admin.Create(t.Context(), ns); err != nil && !apierrors.IsAlreadyExists(err) {
		t.Fatal(err)
	}
	autoscaler := &autoscalingv2.HorizontalPodAutoscaler{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec: autoscalingv2.HorizontalPodAutoscalerSpec{
			ScaleTargetRef: autoscalingv2.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: "deployment"},
			MaxReplicas:    10,
		},
	}
	if err := admin.Create(t.Context(), autoscaler); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := admin.Delete(context.WithoutCancel(t.Context()), autoscaler); err != nil {
			t.Error(err)
		}
	})
	before := autoscaler.DeepCopy()
	autoscaler.Status = autoscalingv2.HorizontalPodAutoscalerStatus{
		CurrentReplicas: current, DesiredReplicas: desired, CurrentMetrics: metrics,
	}
	if err := admin.Status().Patch(t.Context(), autoscaler, client.MergeFrom(before)); err != nil {
		t.Fatal(err)
	}
}

// start starts statistics and returns where their metrics are, and how to stop them.
func start(t *testing.T, o telemetry.HPAOptions) (url string, stop func()) {
	t.Helper()
	statistics := telemetry.NewHPAStatistics(o)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(statistics)
	url, _ = serve(t, func() error { return nil }, registry)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- statistics.Start(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := receive(t, ended, "the end of the statistics"); err != nil {
			t.Errorf("expected the statistics to stop in order, but found %v", err)
		}
	}
	t.Cleanup(stop)
	return url, stop
}

func always() bool { return true }

func TestHPAStatistics(t *testing.T) {
	cases := map[string]struct {
		reason    string
		namespace string
		create    func(t *testing.T, namespace string)
		lines     []string
		metrics   []string
	}{
		"Landscaper's own example": {
			reason: "what reads Landscaper's log reads this one", namespace: "ls-system",
			create: func(t *testing.T, namespace string) {
				createAutoscaler(t, namespace, "helm-default-helm-deployer", 3, 3,
					measured(corev1.ResourceMemory, "64625322666m", 20), measured(corev1.ResourceCPU, "325m", 108))
			},
			lines: []string{
				hpaRecord + `"ls-system/helm-default-helm-deployer","currentReplicas":3,"desiredReplicas":3,` +
					`"memoryAverageUtilization":20,"memoryAverageValue":"64625322666m","cpuAverageUtilization":108,"cpuAverageValue":"325m"}`,
			},
			metrics: []string{
				`pergola_hpa_average_utilization_percent{hpa="helm-default-helm-deployer",resource="cpu"} 108`,
				`pergola_hpa_average_utilization_percent{hpa="helm-default-helm-deployer",resource="memory"} 20`,
				`pergola_hpa_average_value{hpa="helm-default-helm-deployer",resource="cpu"} 0.325`,
				`pergola_hpa_average_value{hpa="helm-default-helm-deployer",resource="memory"} 6.4625322666e+07`,
				`pergola_hpa_current_replicas{hpa="helm-default-helm-deployer"} 3`,
				`pergola_hpa_desired_replicas{hpa="helm-default-helm-deployer"} 3`,
			},
		},
		"gaps": {
			reason: "what nobody has measured is no zero, and the order is always the same", namespace: "hpa-gaps",
			create: func(t *testing.T, namespace string) {
				createAutoscaler(t, namespace, "a", 1, 2, measured(corev1.ResourceCPU, "2", 0), measured(corev1.ResourceMemory, "1536Mi", 75))
				createAutoscaler(t, namespace, "b", 0, 0)
				createAutoscaler(t, namespace, "c", 2, 1,
					autoscalingv2.MetricStatus{
						Type: autoscalingv2.ContainerResourceMetricSourceType,
						ContainerResource: &autoscalingv2.ContainerResourceMetricStatus{
							Name: corev1.ResourceMemory, Container: "c",
							Current: autoscalingv2.MetricValueStatus{AverageValue: ptr.To(resource.MustParse("1"))},
						},
					},
					measured(corev1.ResourceCPU, "1m", 1))
			},
			lines: []string{
				hpaRecord + `"hpa-gaps/a","currentReplicas":1,"desiredReplicas":2,` +
					`"memoryAverageUtilization":75,"memoryAverageValue":"1536Mi","cpuAverageValue":"2"}`,
				hpaRecord + `"hpa-gaps/b","currentReplicas":0,"desiredReplicas":0}`,
				hpaRecord + `"hpa-gaps/c","currentReplicas":2,"desiredReplicas":1,"cpuAverageUtilization":1,"cpuAverageValue":"1m"}`,
			},
			metrics: []string{
				`pergola_hpa_average_utilization_percent{hpa="a",resource="memory"} 75`,
				`pergola_hpa_average_utilization_percent{hpa="c",resource="cpu"} 1`,
				`pergola_hpa_average_value{hpa="a",resource="cpu"} 2`,
				`pergola_hpa_average_value{hpa="a",resource="memory"} 1.610612736e+09`,
				`pergola_hpa_average_value{hpa="c",resource="cpu"} 0.001`,
				`pergola_hpa_current_replicas{hpa="a"} 1`,
				`pergola_hpa_current_replicas{hpa="b"} 0`,
				`pergola_hpa_current_replicas{hpa="c"} 2`,
				`pergola_hpa_desired_replicas{hpa="a"} 2`,
				`pergola_hpa_desired_replicas{hpa="b"} 0`,
				`pergola_hpa_desired_replicas{hpa="c"} 1`,
			},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			tc.create(t, tc.namespace)
			log, lines := newLog()
			url, stop := start(t, telemetry.HPAOptions{
				Reader: admin, Namespace: tc.namespace, Elected: always, Clock: clocktesting.NewFakeClock(time.Now()), Log: log,
			})
			var got []string
			for range tc.lines {
				got = append(got, lines.next(t))
			}
			if diff := cmp.Diff(tc.lines, got); diff != "" {
				t.Errorf("%s: log (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(tc.metrics, samples(t, url)); diff != "" {
				t.Errorf("%s: metrics (-want +got):\n%s", tc.reason, diff)
			}
			stop()
			if rest := lines.all(); rest != nil {
				t.Errorf("expected nothing more in the log, but found %v", rest)
			}
		})
	}
}

// listings lets a Reader say that it is asked.
type listings struct {
	client.Reader
	asked chan struct{}
}

func (l listings) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	l.asked <- struct{}{}
	return l.Reader.List(ctx, list, options...)
}

// A replica lists from when it is elected, within an interval, until it is not any more.
func TestHPAStatisticsElection(t *testing.T) {
	createAutoscaler(t, "hpa-election", "a", 1, 1)
	clock := clocktesting.NewFakeClock(time.Now())
	var elected atomic.Bool
	looked := make(chan struct{}, 100)
	reader := listings{Reader: admin, asked: make(chan struct{}, 100)}
	log, lines := newLog()
	url, _ := start(t, telemetry.HPAOptions{
		Reader: reader, Namespace: "hpa-election", Clock: clock, Log: log,
		Elected: func() bool {
			is := elected.Load()
			looked <- struct{}{}
			return is
		},
	})
	// lookAgain waits for the next look, and so for the end of the one before.
	lookAgain := func() {
		t.Helper()
		clock.Step(time.Minute)
		receive(t, looked, "another look")
	}
	expect := func(when string, listed, series int) {
		t.Helper()
		if len(reader.asked) != listed {
			t.Errorf("%s: expected %d listings, but found %d", when, listed, len(reader.asked))
		}
		if got := samples(t, url); len(got) != series {
			t.Errorf("%s: expected %d series, but found %v", when, series, got)
		}
		receive(t, looked, "the question of the metrics")
	}
	receive(t, looked, "the first look")
	lookAgain()
	lookAgain()
	expect("not elected", 0, 0)

	elected.Store(true)
	lookAgain()
	lines.next(t)
	expect("elected", 1, 2)
	clock.Step(59 * time.Second)
	if len(looked) != 0 {
		t.Error("looked before the interval was over")
	}
	clock.Step(time.Second)
	receive(t, looked, "another look")
	lines.next(t)
	expect("still elected", 2, 2)

	elected.Store(false)
	expect("not elected any more", 2, 0)
	lookAgain()
	lookAgain()
	elected.Store(true)
	expect("elected again, and not listed yet", 2, 0)
	lookAgain()
	lines.next(t)
	expect("elected again", 3, 2)
}

// failures is a Reader that answers each question with the next error.
type failures struct {
	client.Reader
	asked chan struct{}
	next  chan error
}

func (f failures) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	f.asked <- struct{}{}
	select {
	case err := <-f.next:
		if err != nil {
			return err
		}
		return f.Reader.List(ctx, list, options...)
	case <-ctx.Done():
		return ctx.Err()
	}
}

// An error ends nothing, and is logged when it is another one than before.
func TestHPAStatisticsErrors(t *testing.T) {
	createAutoscaler(t, "hpa-errors", "a", 1, 1)
	warning := func(err string) string {
		return `{"level":"WARN","msg":"there are no HPA statistics","namespace":"hpa-errors",` +
			`"error":"list HorizontalPodAutoscalers: ` + err + `"}`
	}
	const figures = hpaRecord + `"hpa-errors/a","currentReplicas":1,"desiredReplicas":1}`
	forbidden, down := errors.New("forbidden"), errors.New("down")
	reader := failures{Reader: admin, asked: make(chan struct{}), next: make(chan error)}
	clock := clocktesting.NewFakeClock(time.Now())
	log, lines := newLog()
	url, stop := start(t, telemetry.HPAOptions{Reader: reader, Namespace: "hpa-errors", Elected: always, Clock: clock, Log: log})
	for _, step := range []struct {
		reason string
		err    error
		line   string
		series int
	}{
		{reason: "the first error", err: forbidden, line: warning("forbidden")},
		{reason: "the same error", err: forbidden},
		{reason: "another error", err: down, line: warning("down")},
		{reason: "the same error", err: down},
		{reason: "no error", line: figures, series: 2},
		{reason: "an error again; old figures are none", err: down, line: warning("down")},
		{reason: "the same error", err: down},
		{reason: "no error", line: figures, series: 2},
	} {
		receive(t, reader.asked, "a listing") // all of the one before has happened
		if rest := lines.all(); rest != nil {
			t.Fatalf("expected no line before this: %s, but found %v", step.reason, rest)
		}
		reader.next <- step.err
		if step.line != "" {
			if diff := cmp.Diff(step.line, lines.next(t)); diff != "" {
				t.Errorf("%s (-want +got):\n%s", step.reason, diff)
			}
			if got := samples(t, url); len(got) != step.series {
				t.Errorf("%s: expected %d series, but found %v", step.reason, step.series, got)
			}
		}
		clock.Step(time.Minute)
	}
	receive(t, reader.asked, "a listing")
	stop()
	if rest := lines.all(); rest != nil {
		t.Errorf("expected no word of a listing that the host's end cuts off, but found %v", rest)
	}
}

// What an operator reads who has not granted the right to list.
func TestHPAStatisticsForbidden(t *testing.T) {
	nobody := rest.CopyConfig(controlPlane.Config)
	nobody.Impersonate = rest.ImpersonationConfig{UserName: "nobody"}
	reader, err := client.New(nobody, client.Options{Scheme: admin.Scheme()})
	if err != nil {
		t.Fatal(err)
	}
	log, lines := newLog()
	start(t, telemetry.HPAOptions{
		Reader: reader, Namespace: "default", Elected: always, Clock: clocktesting.NewFakeClock(time.Now()), Log: log,
	})
	want := `{"level":"WARN","msg":"there are no HPA statistics","namespace":"default","error":"list HorizontalPodAutoscalers: ` +
		`horizontalpodautoscalers.autoscaling is forbidden: User \"nobody\" cannot list resource \"horizontalpodautoscalers\" ` +
		`in API group \"autoscaling\" in the namespace \"default\""}`
	if diff := cmp.Diff(want, lines.next(t)); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}
