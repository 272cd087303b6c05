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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"
)

const (
	// hpaInterval is the time between two listings, as in Landscaper, and the longest delay after the election of a
	// replica.
	hpaInterval = time.Minute
	// hpaTimeout bounds a listing.
	hpaTimeout = 30 * time.Second
	// hpaLogger is Landscaper's name of the logger. Tools find the statistics by it.
	hpaLogger = "controllers.landscaper-monitoring"
)

// hpaResources are the resources of the statistics, in the order of the record in the log.
var hpaResources = []corev1.ResourceName{corev1.ResourceMemory, corev1.ResourceCPU}

// HPAOptions are the settings of HPAStatistics.
type HPAOptions struct {
	// Reader of the cluster with the host's pods. It needs no cache. Required.
	Reader client.Reader
	// Namespace of the HorizontalPodAutoscalers and the host's pods. Required.
	Namespace string
	// Elected reports whether this replica lists. It must not block and may be called at any time.
	// Required.
	Elected func() bool
	// Log is required.
	Log *slog.Logger
}

// HPAStatistics lists the HorizontalPodAutoscalers of a namespace periodically, on one elected replica, and logs
// replicas, memory and cpu from their status. Start does so; Collector has the figures of the last listing as metrics.
//
// Figures missing in a status are left out of the record and of the metrics: a zero would mean idle pods.
type HPAStatistics struct {
	options HPAOptions
	// problem is the error of the last listing; empty after success.
	problem string

	current, desired, utilization, value *prometheus.Desc

	mu   sync.Mutex
	last []autoscalingv2.HorizontalPodAutoscaler
}

var _ manager.Runnable = (*HPAStatistics)(nil)

// NewHPAStatistics returns HPAStatistics for Start.
func NewHPAStatistics(o HPAOptions) *HPAStatistics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc(name, help, append([]string{"hpa"}, labels...), nil)
	}
	return &HPAStatistics{
		options: o,
		current: desc("pergola_hpa_current_replicas", "How many replicas the autoscaler has seen."),
		desired: desc("pergola_hpa_desired_replicas", "How many replicas the autoscaler wants."),
		utilization: desc("pergola_hpa_average_utilization_percent",
			"Average use of the pods, in percent of their requests. Absent while the autoscaler does not know.",
			"resource"),
		value: desc("pergola_hpa_average_value",
			"Average use of the pods, in cores or bytes. Absent while the autoscaler does not know.", "resource"),
	}
}

// Start lists at once and then in each interval until ctx ends, as long as this replica is elected. It blocks. A
// failed listing is logged, and is no error.
func (s *HPAStatistics) Start(ctx context.Context) error {
	wait.UntilWithContext(ctx, s.update, hpaInterval)
	return nil
}

// update lists and logs once, if this replica is elected.
func (s *HPAStatistics) update(ctx context.Context) {
	if !s.options.Elected() {
		s.keep(nil)
		return
	}
	autoscalers, err := s.list(ctx)
	// After a failure there are none: old figures would look like new ones.
	s.keep(autoscalers)
	if ctx.Err() != nil {
		return
	}
	s.report(ctx, err)
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

// report logs an error once, until it changes.
func (s *HPAStatistics) report(ctx context.Context, err error) {
	problem := ""
	if err != nil {
		problem = err.Error()
	}
	if problem != "" && problem != s.problem {
		level := slog.LevelWarn
		if apierrors.IsForbidden(err) { // the right is for installations with an autoscaler
			level = slog.LevelDebug
		}
		s.options.Log.Log(ctx, level, "there are no HPA statistics", "namespace", s.options.Namespace, "error", problem)
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

// usage is the usage of a resource of the pods in a status; empty if it is missing.
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
