package tracing

import (
	"context"
	"crypto/rand"
	"crypto/sha256"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/pergola-deploy/pergola/host/internal/observe"
)

// rootOf is the span context of a job, the same in all replicas.
func rootOf(job observe.Job) trace.SpanContextConfig {
	sum := sha256.Sum256([]byte("job\x00" + string(job.UID) + "\x00" + job.ID))
	root := trace.SpanContextConfig{TraceFlags: trace.FlagsSampled, Remote: true}
	copy(root.TraceID[:], sum[:])
	copy(root.SpanID[:], sum[len(root.TraceID):])
	return root
}

// rootKey is for the span context of a root that is about to begin.
type rootKey struct{}

// ids are those of a root if the context has one, and else random ones.
type ids struct{}

var _ sdktrace.IDGenerator = ids{}

// NewIDs implements sdktrace.IDGenerator.
func (ids) NewIDs(ctx context.Context) (trace.TraceID, trace.SpanID) {
	if root, ok := ctx.Value(rootKey{}).(trace.SpanContextConfig); ok {
		return root.TraceID, root.SpanID
	}
	var traceID trace.TraceID
	_, _ = rand.Read(traceID[:]) // it never fails
	return traceID, randomSpanID()
}

// NewSpanID implements sdktrace.IDGenerator.
func (ids) NewSpanID(context.Context, trace.TraceID) trace.SpanID { return randomSpanID() }

func randomSpanID() (id trace.SpanID) {
	_, _ = rand.Read(id[:]) // it never fails
	return id
}
