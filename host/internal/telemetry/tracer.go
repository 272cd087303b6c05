package telemetry

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracegrpc"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"
	"golang.org/x/time/rate"
)

const (
	// batchPause is the time that spans wait for others to form a batch.
	batchPause = time.Second
	// exportTimeout bounds an attempt to send them, and endTimeout the last one when the host stops.
	exportTimeout = 10 * time.Second
	endTimeout    = 3 * time.Second
	// exportErrorPause is the minimum time between two logged errors of the collector, because they repeat.
	exportErrorPause = time.Minute
)

// TracerOptions are the settings of a Tracer.
type TracerOptions struct {
	// Endpoint of the collector, "<host>:<port>". Required.
	Endpoint string
	// Insecure sends spans without TLS. Otherwise the collector needs a certificate trusted by the system or by
	// OTEL_EXPORTER_OTLP_CERTIFICATE. OTEL_EXPORTER_OTLP_HEADERS and the like apply, too.
	Insecure bool
	// SampleRatio is the fraction of traced jobs, above 0 and up to 1. Required.
	SampleRatio float64
	// Version of the host, and Instance the name of this replica.
	Version, Instance string
	// Log is required.
	Log *slog.Logger
}

// Tracer sends spans of jobs to a collector. A nil Tracer sends none.
type Tracer struct {
	provider *sdktrace.TracerProvider
	tracer   trace.Tracer
	sampler  sdktrace.Sampler
}

// NewTracer returns a Tracer that must be closed. It does not wait for the collector.
func NewTracer(ctx context.Context, o TracerOptions) (*Tracer, error) {
	scheme := "https"
	if o.Insecure {
		scheme = "http"
	}
	exporter, err := otlptracegrpc.New(ctx,
		otlptracegrpc.WithEndpointURL(scheme+"://"+o.Endpoint), otlptracegrpc.WithTimeout(exportTimeout))
	if err != nil {
		return nil, fmt.Errorf("set up traces: %w", err)
	}
	sometimes := rate.Sometimes{Interval: exportErrorPause}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		sometimes.Do(func() {
			o.Log.Warn("cannot send traces; they are lost",
				"endpoint", o.Endpoint, "error", err.Error())
		})
	}))
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

// Close sends the remaining spans within a few seconds. Spans not accepted by the collector are lost.
func (t *Tracer) Close(ctx context.Context) {
	if t == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, endTimeout)
	defer cancel()
	if err := t.provider.Shutdown(ctx); err != nil {
		otel.Handle(err)
	}
}

// sampled returns the root of a job's trace, and whether the job is traced.
func (t *Tracer) sampled(job Job) (trace.SpanContextConfig, bool) {
	if t == nil || job.ID == "" {
		return trace.SpanContextConfig{}, false
	}
	root := rootOf(job)
	result := t.sampler.ShouldSample(sdktrace.SamplingParameters{TraceID: root.TraceID})
	return root, result.Decision == sdktrace.RecordAndSample
}

// startSpan returns a context with the span of some work. Work without a known job has no span.
func (t *Tracer) startSpan(
	ctx context.Context, job Job, at time.Time, work Work,
) (_ context.Context, end func(time.Time, Done)) {
	root, sampled := t.sampled(job)
	if !sampled {
		return ctx, func(time.Time, Done) {}
	}
	if trace.SpanContextFromContext(ctx).TraceID() != root.TraceID {
		ctx = trace.ContextWithSpanContext(ctx, trace.NewSpanContext(root))
	}
	kind := trace.SpanKindClient
	if work.Of == KindLock {
		kind = trace.SpanKindInternal
	}
	ctx, span := t.tracer.Start(ctx, strings.TrimSpace(string(work.Of)+" "+work.Name),
		trace.WithTimestamp(at), trace.WithSpanKind(kind), trace.WithAttributes(attributesOf(job)...))
	if work.By != "" {
		span.SetAttributes(attribute.String("pergola.by", work.By))
	}
	return ctx, func(at time.Time, done Done) {
		span.SetAttributes(attribute.String("pergola.result", done.Result))
		if failed(done) {
			span.SetStatus(codes.Error, done.Result)
		}
		span.End(trace.WithTimestamp(at))
	}
}

// failed reports whether work failed.
func failed(done Done) bool {
	switch done.Of {
	case KindRequest:
		return !strings.HasPrefix(done.Result, "2")
	case KindLock:
		return done.Result == ResultError
	default:
		return done.Result != ResultDone && done.Result != ResultInProgress && done.Result != ResultAbort
	}
}

// ended sends the root of a job's trace.
func (t *Tracer) ended(job Job, at time.Time, ended Ended) {
	root, sampled := t.sampled(job)
	if !sampled {
		return
	}
	began := ended.Triggered
	if began.IsZero() {
		began = ended.PickedUp
	}
	if began.IsZero() || began.After(at) {
		began = at
	}
	// The root has no parent, so it must not get the span of the context.
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
		span.SetAttributes(
			attribute.String("pergola.error.reason", e.Reason), attribute.StringSlice("pergola.error.codes", codesOf))
		span.SetStatus(codes.Error, e.Text)
	}
	span.End(trace.WithTimestamp(at))
}

// attributesOf are the attributes of each span of a job.
func attributesOf(job Job) []attribute.KeyValue {
	return []attribute.KeyValue{
		attribute.String("k8s.namespace.name", job.Item.Namespace),
		attribute.String("pergola.deployitem.name", job.Item.Name),
		attribute.String("pergola.deployitem.uid", string(job.UID)),
		attribute.String("pergola.job.id", job.ID),
		attribute.String("pergola.job.operation", job.Operation), attribute.String("pergola.plugin", job.Plugin),
	}
}

// rootOf is the span context of a job, the same in all replicas.
func rootOf(job Job) trace.SpanContextConfig {
	sum := sha256.Sum256([]byte("job\x00" + string(job.UID) + "\x00" + job.ID))
	root := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(root.TraceID[:], sum[:])
	copy(root.SpanID[:], sum[len(root.TraceID):])
	return root
}

// rootKey is the key for the span context of a root to be started.
type rootKey struct{}

// ids generates the ids of the root in the context, and without a root random ones.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (traceID trace.TraceID, spanID trace.SpanID) {
	if root, ok := ctx.Value(rootKey{}).(trace.SpanContextConfig); ok {
		return root.TraceID, root.SpanID
	}
	_, _ = rand.Read(traceID[:]) // it never fails
	_, _ = rand.Read(spanID[:])
	return traceID, spanID
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}
