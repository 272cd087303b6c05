package tracing

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pergola-deploy/pergola/host/internal/observe"
)

const (
	// batchPause is how long spans wait for others to be sent with.
	batchPause = time.Second
	// exportTimeout bounds a try to send them, and endTimeout the last one when the host stops.
	exportTimeout = 10 * time.Second
	endTimeout    = 3 * time.Second
	// complainPause is how long nothing more is said of a collector that does not take spans.
	complainPause = time.Minute
)

// Options are the settings of a Tracer.
type Options struct {
	// Endpoint of the collector, "<host>:<port>". Required.
	Endpoint string
	// Insecure sends spans without TLS. Otherwise the collector needs a certificate that the system trusts, or the environment names another
	// one: what OTEL_EXPORTER_OTLP_CERTIFICATE, OTEL_EXPORTER_OTLP_HEADERS and their like say holds, too.
	Insecure bool
	// SampleRatio is the part of the jobs that is traced, above 0 and up to 1. Required.
	SampleRatio float64
	// Version of the host, and Instance what tells this replica from others.
	Version, Instance string
	// Log is required.
	Log *slog.Logger
}

// Tracer is an observe.Observer that makes spans of what happens to jobs.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
}

var _ observe.Tracer = (*Tracer)(nil)

// New returns a Tracer, which must be closed. It does not wait for the collector.
func New(ctx context.Context, o Options) (*Tracer, error) {
	scheme := "https"
	if o.Insecure {
		scheme = "http"
	}
	exporter, err := otlptracegrpc.New(ctx, otlptracegrpc.WithEndpointURL(scheme+"://"+o.Endpoint), otlptracegrpc.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	otel.SetErrorHandler(&complaints{log: o.Log, endpoint: o.Endpoint, now: time.Now})
	sampler := sdktrace.TraceIDRatioBased(o.SampleRatio)
	provider := sdktrace.NewTracerProvider(
		sdktrace.WithBatcher(exporter, sdktrace.WithBatchTimeout(batchPause), sdktrace.WithExportTimeout(exportTimeout)),
		sdktrace.WithIDGenerator(ids{}),
		sdktrace.WithSampler(sdktrace.ParentBased(sampler)),
		sdktrace.WithResource(resource.NewSchemaless(
			attribute.String("service.name", "pergola"), attribute.String("service.version", o.Version),
			attribute.String("service.instance.id", o.Instance),
		)),
	)
	return &Tracer{provider: provider, tracer: provider.Tracer("pergola"), sampler: sampler}, nil
}

// Close sends what is left, which takes a few seconds at most. What the collector does not take is lost.
func (t *Tracer) Close(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// sampled tells whether a job is traced.
func (t *Tracer) sampled(id trace.TraceID) bool {
	return t.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: id}).Decision == sdktrace.RecordAndSample
}

// kinds are how OpenTelemetry calls what is called.
var kinds = map[observe.Kind]trace.SpanKind{
	observe.KindLock: trace.SpanKindInternal, observe.KindCall: trace.SpanKindClient, observe.KindHook: trace.SpanKindClient,
	observe.KindHTTPHook: trace.SpanKindClient, observe.KindRequest: trace.SpanKindClient,
}

// Begin implements observe.Tracer.
func (t *Tracer) Begin(ctx context.Context, job observe.Job, at time.Time, work observe.Work) (context.Context, func(time.Time, observe.Done)) {
	if job.ID == "" {
		return ctx, nil
	}
	root := rootOf(job)
	if !t.sampled(root.TraceID) {
		return ctx, nil
	}
	if trace.SpanContextFromContext(ctx).TraceID() != root.TraceID {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(root))
	}
	ctx, span := t.tracer.Start(ctx, strings.TrimSpace(string(work.Of)+" "+work.Name),
		trace.WithTimestamp(at), trace.WithSpanKind(kinds[work.Of]), trace.WithAttributes(attributesOf(job)...))
	if work.By != "" {
		span.SetAttributes(attribute.String("pergola.by", work.By))
	}
	return ctx, func(at time.Time, done observe.Done) {
		span.SetAttributes(attribute.String("pergola.result", done.Result))
		if failed(done) {
			span.SetStatus(codes.Error, done.Result)
		}
		span.End(trace.WithTimestamp(at))
	}
}

// failed tells whether work has come to nothing.
func failed(done observe.Done) bool {
	switch done.Of {
	case observe.KindRequest:
		return !strings.HasPrefix(done.Result, "2")
	case observe.KindLock:
		return done.Result == observe.ResultError
	default:
		return done.Result != observe.ResultDone && done.Result != observe.ResultInProgress && done.Result != observe.ResultAbort
	}
}

// Observe implements observe.Observer.
func (t *Tracer) Observe(job observe.Job, at time.Time, event observe.Event) {
	ended, ok := event.(observe.Ended)
	root := rootOf(job)
	if !ok || job.ID == "" || !t.sampled(root.TraceID) {
		return
	}
	began := ended.Triggered
	if began.IsZero() {
		began = ended.PickedUp
	}
	if began.IsZero() || began.After(at) {
		began = at
	}
	// The root has no parent, and is no part of whatever this replica does.
	_, span := t.tracer.Start(context.WithValue(context.Background(), rootKey{}, root), "Job "+job.Operation,
		trace.WithNewRoot(), trace.WithTimestamp(began), trace.WithAttributes(attributesOf(job)...))
	span.SetAttributes(attribute.String("pergola.phase", string(ended.Phase)))
	if !ended.PickedUp.IsZero() {
		span.AddEvent("PickedUp", trace.WithTimestamp(ended.PickedUp))
	}
	if e := ended.Error; e != nil {
		var codesOf []string
		for _, code := range e.Codes {
			codesOf = append(codesOf, string(code))
		}
		span.SetAttributes(attribute.String("pergola.error.reason", e.Reason), attribute.StringSlice("pergola.error.codes", codesOf))
		span.SetStatus(codes.Error, e.Text)
	}
	span.End(trace.WithTimestamp(at))
}

// attributesOf are those of each span of a job.
func attributesOf(job observe.Job) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("k8s.namespace.name", job.Item.Namespace), attribute.String("pergola.deployitem.name", job.Item.Name),
		attribute.String("pergola.deployitem.uid", string(job.UID)), attribute.String("pergola.job.id", job.ID),
		attribute.String("pergola.job.operation", job.Operation), attribute.String("pergola.plugin", job.Plugin),
	}
}

// complaints logs what is wrong with sending spans, once in a while: it is the same again and again.
type complaints struct {
	log      *slog.Logger
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
		c.log.Warn("traces could not be sent; what the collector does not take is lost", "endpoint", c.endpoint, "error", err.Error())
	}
}
