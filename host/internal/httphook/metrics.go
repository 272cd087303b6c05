package httphook

import (
	"context"
	"errors"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// Metrics are pergola_http_hook_requests_total and pergola_http_hook_request_duration_seconds. The label code of the
// first is the HTTP status of the answer, "timeout", "canceled" for a request ended by the host, or "error" without a
// usable answer. Metrics may be used concurrently.
type Metrics struct {
	requests *prometheus.CounterVec
	duration *prometheus.HistogramVec
}

// NewMetrics returns Metrics without any series.
func NewMetrics() *Metrics {
	return &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "pergola_http_hook_requests_total",
			Help: "How many requests were made to HTTP hooks, by the HTTP status of the answer, " +
				"or error, timeout or canceled.",
		}, []string{"registration", "phase", "code"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name:    "pergola_http_hook_request_duration_seconds",
			Help:    "How long requests to HTTP hooks took, whatever came of them.",
			Buckets: prometheus.ExponentialBuckets(0.005, 4, 9), // up to 328 s; the longest timeout is 600 s
		}, []string{"registration", "phase"}),
	}
}

// Register registers the metrics.
func (m *Metrics) Register(registry prometheus.Registerer) error {
	return errors.Join(registry.Register(m.requests), registry.Register(m.duration))
}

// forget drops the series of a removed registration. A running request brings some of them back.
func (m *Metrics) forget(registration string) {
	labels := prometheus.Labels{"registration": registration}
	m.requests.DeletePartialMatch(labels)
	m.duration.DeletePartialMatch(labels)
}

func (m *Metrics) observe(registration string, phase v1alpha1.HookCapability, code string, took time.Duration) {
	m.requests.WithLabelValues(registration, string(phase), code).Inc()
	m.duration.WithLabelValues(registration, string(phase)).Observe(took.Seconds())
}

// codeLabel is the value of the label code for the result of a request.
func codeLabel(ctx context.Context, code int, failed *Error) string {
	switch {
	case failed == nil || failed.Reason == ReasonFailed || failed.Reason == ReasonPermanentError:
		return strconv.Itoa(code)
	case ctx.Err() != nil:
		return "canceled"
	case failed.Reason == ReasonTimeout:
		return "timeout"
	}
	return "error"
}
