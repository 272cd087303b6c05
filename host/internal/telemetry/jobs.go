package telemetry

import (
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// JobMetrics are the metrics of events of jobs. Their labels are names of plugins and few other words, but nothing of
// an item: the number of series does not grow with the items. They may be used concurrently.
type JobMetrics struct {
	jobs, retries, takeovers, requests                     *prometheus.CounterVec
	duration, pickupLatency, queueWait, callTime, hookTime *prometheus.HistogramVec
}

var _ Observer = (*JobMetrics)(nil)

// NewJobMetrics returns JobMetrics without any series.
func NewJobMetrics() *JobMetrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, append([]string{"plugin"}, labels...))
	}
	histogram := func(name, help string, least float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: name, Help: help, Buckets: prometheus.ExponentialBuckets(least, 4, 8),
		}, append([]string{"plugin"}, labels...))
	}
	return &JobMetrics{
		jobs: counter("pergola_jobs_total",
			"How many jobs this replica has ended, by operation and final phase.",
			"operation", "phase"),
		retries: counter("pergola_job_retries_total",
			"How often a job is tried again after an error. Waiting for something is no error."),
		takeovers: counter("pergola_job_takeovers_total",
			"How many jobs under way this replica has taken over from another one, or another host."),
		requests: counter("pergola_job_requests_total",
			"How many requests to the API server this replica has made for jobs, by method, resource and HTTP status, "+
				"or error without an answer.",
			"method", "resource", "code"),
		// Up to half an hour.
		duration: histogram("pergola_job_duration_seconds",
			"How long jobs took from their pick-up, or their turn if they had to wait for it, to their end.",
			0.1, "operation", "phase"),
		pickupLatency: histogram("pergola_job_pickup_latency_seconds",
			"How long after jobs were set they were picked up. The time of their setting is in whole seconds, "+
				"so up to a second of it may not be real.", 0.1),
		queueWait: histogram("pergola_job_queue_wait_seconds",
			"How long new jobs waited for a free worker after their pick-up.", 0.1),
		callTime: histogram("pergola_call_duration_seconds",
			"How long calls of plugins took, by operation and result.",
			0.01, "operation", "result"),
		// Up to the longest timeout, and longer.
		hookTime: histogram("pergola_hook_duration_seconds",
			"How long calls of plugins' hook functions took, by the type of the hooks and result.",
			0.005, "type", "result"),
	}
}

// Observe implements Observer.
func (m *JobMetrics) Observe(job Job, at time.Time, event Event) {
	plugin := label(job.Plugin)
	switch e := event.(type) {
	case PickedUp:
		// The series begin with zero, so that the first event is an increase.
		m.retries.WithLabelValues(plugin)
		m.takeovers.WithLabelValues(plugin)
		if !e.Triggered.IsZero() {
			m.pickupLatency.WithLabelValues(plugin).Observe(max(0, at.Sub(e.Triggered).Seconds()))
		}
		if !e.Queued {
			m.queueWait.WithLabelValues(plugin).Observe(0)
		}
	case Dequeued:
		m.queueWait.WithLabelValues(plugin).Observe(e.Waited.Seconds())
	case TakenOver:
		m.takeovers.WithLabelValues(plugin).Inc()
	case Retries:
		m.retries.WithLabelValues(plugin).Inc()
	case Ended:
		m.jobs.WithLabelValues(plugin, job.Operation, string(e.Phase)).Inc()
		if !e.PickedUp.IsZero() {
			m.duration.WithLabelValues(plugin, job.Operation, string(e.Phase)).Observe(max(0, at.Sub(e.PickedUp).Seconds()))
		}
	case Done:
		m.worked(job, plugin, e)
	}
}

func (m *JobMetrics) worked(job Job, plugin string, done Done) {
	switch done.Of {
	case KindCall:
		m.callTime.WithLabelValues(plugin, done.Name, done.Result).Observe(done.Took.Seconds())
	case KindHook:
		// The hook may be of another plugin.
		m.hookTime.WithLabelValues(label(done.By), done.Name, done.Result).Observe(done.Took.Seconds())
	case KindRequest:
		if method, resource, _ := strings.Cut(done.Name, " "); job.ID != "" {
			m.requests.WithLabelValues(plugin, method, resource, done.Result).Inc()
		}
	default:
		// Locks and HTTP hooks have metrics of their own.
	}
}

// Register registers all metrics.
func (m *JobMetrics) Register(registry prometheus.Registerer) error {
	return register(registry,
		m.jobs, m.retries, m.takeovers, m.requests, m.duration, m.pickupLatency, m.queueWait, m.callTime, m.hookTime)
}
