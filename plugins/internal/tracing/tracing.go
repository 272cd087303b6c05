// Package tracing makes spans of a plugin's requests to its targets, and sends them to a collector, if the
// environment of the plugin names one. They are part of the traces of the host's jobs; without such a trace there are
// none.
package tracing

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
)

const (
	// batchPause is the time spans wait for others to be sent with.
	batchPause = time.Second
	// endTimeout bounds the send of the remaining spans at the end: the host waits for the process.
	endTimeout = time.Second
	// complainPause is the least time between two complaints about a collector.
	complainPause = time.Minute
)

// endpoints are the environment variables of OpenTelemetry for the destination of spans.
var endpoints = []string{"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT"}

// Start sends the spans of this process to the destination in the environment, as in OpenTelemetry; by default
// nowhere. end sends the remaining ones. name is that of the plugin. Errors are logged: a plugin works without
// traces, too.
func Start(ctx context.Context, name, version string) (end func()) {
	endpoint := ""
	for _, variable := range endpoints {
		endpoint = cmp.Or(endpoint, os.Getenv(variable))
	}
	if endpoint == "" {
		return func() {}
	}
	provider, err := newProvider(ctx, name, version)
	if err != nil {
		slog.Warn("there are no traces", "error", err.Error())
		return func() {}
	}
	complain := &complaints{endpoint: endpoint, now: time.Now}
	otel.SetErrorHandler(complain)
	otel.SetTracerProvider(provider)
	return func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTimeout)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			complain.Handle(err)
		}
	}
}

func newProvider(ctx context.Context, name, version string) (*sdktrace.TracerProvider, error) {
	exporter, err := otlptracegrpc.New(ctx)
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	about, err := resource.New(ctx,
		resource.WithAttributes(
			attribute.String("service.name", "pergola-"+name), attribute.String("service.version", version)),
		resource.WithFromEnv())
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	return sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(batchPause)),
		sdktrace.WithSampler(sdktrace.ParentBased(sdktrace.NeverSample())),
		sdktrace.WithResource(about),
	), nil
}

// complaints logs the errors of sending spans, once in a while.
type complaints struct {
	endpoint string
	now      func() time.Time

	mu   sync.Mutex
	last time.Time
}

// Handle implements otel.ErrorHandler.
func (c *complaints) Handle(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now := c.now(); now.Sub(c.last) >= complainPause {
		c.last = now
		slog.Warn("traces could not be sent; what the collector does not take is lost",
			"endpoint", c.endpoint, "error", err.Error())
	}
}

// Transport makes a span of each request within a trace, and leaves the request to next.
func Transport(next http.RoundTripper) http.RoundTripper { return &transport{next: next} }

type transport struct {
	next http.RoundTripper
}

var _ http.RoundTripper = (*transport)(nil)

// RoundTrip implements http.RoundTripper. The span ends with the header of the answer.
func (t *transport) RoundTrip(request *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(request.Context()).IsSampled() {
		return t.next.RoundTrip(request)
	}
	ctx, span := otel.Tracer("pergola").Start(request.Context(), request.Method+" target",
		trace.WithSpanKind(trace.SpanKindClient), trace.WithAttributes(
			attribute.String("http.request.method", request.Method),
			attribute.String("server.address", request.URL.Host), attribute.String("url.path", request.URL.Path)))
	defer span.End()
	response, err := t.next.RoundTrip(request.WithContext(ctx))
	if err != nil {
		span.SetStatus(codes.Error, "no answer")
		return nil, err
	}
	span.SetAttributes(attribute.Int("http.response.status_code", response.StatusCode))
	if response.StatusCode >= http.StatusBadRequest {
		span.SetStatus(codes.Error, http.StatusText(response.StatusCode))
	}
	return response, nil
}

// WrappedRoundTripper lets client-go find the transport below.
func (t *transport) WrappedRoundTripper() http.RoundTripper { return t.next }
