package telemetry

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// hpaInterval is the time between two listings, that of Landscaper, and the longest until a replica lists that
	// becomes elected.
	hpaInterval = time.Minute
	// hpaTimeout bounds a listing.
	hpaTimeout = 30 * time.Second
	// hpaLogger is the name under which Landscaper logs the statistics. Tools find them by it.
	hpaLogger = "controllers.landscaper-monitoring"
)

// hpaResources are the resources that the statistics are of, in the order of the record in the log.
var hpaResources = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}

// HPAOptions are the settings of HPAStatistics.
type HPAOptions struct {
	// Reader of the cluster that the host's pods run in. One without a cache will do. Required.
	Reader client.Reader
	// Namespace of the HorizontalPodAutoscalers: that of the host's pods. Required.
	Namespace string
	// Elected reports whether this replica is the one that lists. It must not block and may be called at any time.
	// Required.
	Elected func() bool
	// Log is required.
	Log *slog.Logger
}

// HPAStatistics lists the HorizontalPodAutoscalers of a namespace again and again, on one elected replica, and logs
// what their status says of replicas, memory and cpu. Start does so; to see the figures of the last listing as
// metrics, register its Collector.
//
// What a status does not say is left out, of the record and of the metrics: a zero would be taken for idle pods.
type HPAStatistics struct {
	options HPAOptions
	problem string // why the last listing failed; empty if it did not

	current, desired, utilization, value *prometheus.Desc

	mu   sync.Mutex
	last []autoscalingv2.HorizontalPodAutoscaler
}

var _ manager.Runnable = (*HPAStatistics)(nil)

// NewHPAStatistics returns HPAStatistics that Start lets work.
func NewHPAStatistics(o HPAOptions) *HPAStatistics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"hpa"}, labels...), nil)
	}
	return &HPAStatistics{
		options: o,
		current: desc("pergola_hpa_current_replicas", "How many replicas the autoscaler has seen."),
		desired: desc("pergola_hpa_desired_replicas", "How many replicas the autoscaler wants."),
		utilization: desc("pergola_hpa_average_utilization_percent",
			"What the pods use on average, in percent of what they request. Absent while the autoscaler does not know.",
			"resource"),
		value: desc("pergola_hpa_average_value",
			"What the pods use on average, in cores or bytes. Absent while the autoscaler does not know.", "resource"),
	}
}

// Start lists at once and then in each interval until ctx ends, as long as this replica is elected. It blocks. A
// listing that fails is logged, and is no error.
func (s *HPAStatistics) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, s.update, hpaInterval)
	return nil
}

// update lists and logs once, if it is on this replica to do so.
func (s *HPAStatistics) update(ctx context.Context) {
	if !s.options.Elected() {
		s.keep(nil)
		return
	}
	autoscalers, err := s.list(ctx)
	s.keep(autoscalers) // none if the listing failed: what is old would be taken for new
	if ctx.Err() != nil {
		return
	}
	s.report(err)
	for i := range autoscalers {
		s.log(ctx, &autoscalers[i])
	}
}

func (s *HPAStatistics) list(ctx context.Context) ([]autoscalingv2.HorizontalPodAutoscaler, error) {
	ctx, cancel := context.WithTimeout(ctx, hpaTimeout)
	defer cancel()
	var list autoscalingv2.HorizontalPodAutoscalerList
	if err := s.options.Reader.List(ctx, &list, client.InNamespace(s.options.Namespace)); err != nil {
		return nil, fmt.Errorf("list HorizontalPodAutoscalers: %w", err)
	}
	return list.Items, nil
}

func (s *HPAStatistics) keep(autoscalers []autoscalingv2.HorizontalPodAutoscaler) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last = autoscalers
}

// report logs an error that the last listing did not have: an operator need not grant the right to list.
func (s *HPAStatistics) report(err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != s.problem {
		s.options.Log.Warn("there are no HPA statistics", "namespace", s.options.Namespace, "error", problem)
	}
	s.problem = problem
}

func (s *HPAStatistics) log(ctx context.Context, autoscaler *autoscalingv2.HorizontalPodAutoscaler) {
	attrs := []slog.Attr{
		slog.String("logger", hpaLogger),
		slog.String("resource", autoscaler.Namespace+"/"+autoscaler.Name),
		slog.Int("currentReplicas", int(autoscaler.Status.CurrentReplicas)),
		slog.Int("desiredReplicas", int(autoscaler.Status.DesiredReplicas)),
	}
	for _, resource := range hpaResources {
		used := usage(&autoscaler.Status, resource)
		if used.AverageUtilization != nil {
			attrs = append(attrs, slog.Int(string(resource)+"AverageUtilization", int(*used.AverageUtilization)))
		}
		if used.AverageValue != nil {
			attrs = append(attrs, slog.String(string(resource)+"AverageValue", used.AverageValue.String()))
		}
	}
	s.options.Log.LogAttrs(ctx, slog.LevelInfo, "HPA Statistics", attrs...)
}

// usage is what a status says of a resource of the pods; empty if it says nothing.
func usage(
	status *autoscalingv2.HorizontalPodAutoscalerStatus, resource corev1.ResourceName,
) autoscalingv2.MetricValueStatus {
	for _, metric := range status.CurrentMetrics {
		if metric.Resource != nil && metric.Resource.Name == resource {
			return metric.Resource.Current
		}
	}
	return autoscalingv2.MetricValueStatus{}
}

// Collector returns a collector of the metrics pergola_hpa_current_replicas, pergola_hpa_desired_replicas,
// pergola_hpa_average_utilization_percent and pergola_hpa_average_value, with the figures of the last listing; none
// if it failed, or while this replica is not elected.
func (s *HPAStatistics) Collector() prometheus.Collector { return collector(s.collect) }

func (s *HPAStatistics) collect(metrics chan<- prometheus.Metric) {
	if !s.options.Elected() {
		return
	}
	s.mu.Lock()
	last := s.last
	s.mu.Unlock()
	for i := range last {
		name, status := last[i].Name, last[i].Status
		gauge(metrics, s.current, float64(status.CurrentReplicas), name)
		gauge(metrics, s.desired, float64(status.DesiredReplicas), name)
		for _, resource := range hpaResources {
			used := usage(&status, resource)
			if used.AverageUtilization != nil {
				gauge(metrics, s.utilization, float64(*used.AverageUtilization), name, string(resource))
			}
			if used.AverageValue != nil {
				gauge(metrics, s.value, used.AverageValue.AsApproximateFloat64(), name, string(resource))
			}
		}
	}
}
