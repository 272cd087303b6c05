package httphook

import (
	"net/http"
	"testing"

	"go.opentelemetry.io/otel/trace"
)

// TestTraceContext: a hook can continue the trace of a job that has one.
func TestTraceContext(t *testing.T) {
	t.Parallel()
	var got string
	h := newHook(Options{URL: serve(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Traceparent")
		w.WriteHeader(http.StatusNoContent)
	}))})
	ctx := trace.ContextWithSpanContext(t.Context(), trace.NewSpanContext(trace.SpanContextConfig{
		TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, TraceFlags: trace.FlagsSampled,
	}))
	const want = "00-01000000000000000000000000000000-0200000000000000-01"
	if err := h.Finalize(ctx, "manifest", item()); err != nil || got != want {
		t.Errorf("expected traceparent %s, but found %q (%v)", want, got, err)
	}
}
