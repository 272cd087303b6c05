package testenv

import (
	"context"
	"encoding/hex"
	"net"
	"sync"
	"testing"
	"time"

	collectorv1 "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	commonv1 "go.opentelemetry.io/proto/otlp/common/v1"
	tracev1 "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/grpc"
)

// Span is a span that a Collector has got.
type Span struct {
	// Service is the name of the service that has sent it.
	Service string
	Name    string
	// TraceID, ID and Parent are in hexadecimal digits; Parent is empty for a root.
	TraceID, ID, Parent string
	Began, Ended        time.Time
	// Attributes with their values as texts.
	Attributes map[string]string
	// Failed reports whether its status is an error, and Message what that says.
	Failed  bool
	Message string
}

// Collector takes spans by OpenTelemetry's protocol over gRPC, without TLS.
type Collector struct {
	collectorv1.UnimplementedTraceServiceServer

	// Address is its host and port.
	Address string

	mu    sync.Mutex
	spans []Span
}

// StartCollector starts a Collector for a test, at whose end it is stopped.
func StartCollector(t testing.TB) *Collector {
	t.Helper()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c, server, served := &Collector{Address: listener.Addr().String()}, grpc.NewServer(), make(chan error, 1)
	collectorv1.RegisterTraceServiceServer(server, c)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	return c
}

// Spans are those that it has got so far, in the order of their ends as far as their senders keep it.
func (c *Collector) Spans() []Span {
	c.mu.Lock()
	defer c.mu.Unlock()
	return append([]Span(nil), c.spans...)
}

// Export implements the protocol.
func (c *Collector) Export(
	_ context.Context, in *collectorv1.ExportTraceServiceRequest,
) (*collectorv1.ExportTraceServiceResponse, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, resource := range in.GetResourceSpans() {
		service := textsOf(resource.GetResource().GetAttributes())["service.name"]
		for _, scope := range resource.GetScopeSpans() {
			for _, s := range scope.GetSpans() {
				c.spans = append(c.spans, spanOf(service, s))
			}
		}
	}
	return &collectorv1.ExportTraceServiceResponse{}, nil
}

func spanOf(service string, s *tracev1.Span) Span {
	return Span{
		Service: service, Name: s.GetName(),
		TraceID: hex.EncodeToString(s.GetTraceId()), ID: hex.EncodeToString(s.GetSpanId()),
		Parent: hex.EncodeToString(s.GetParentSpanId()),
		Began:  time.Unix(0, int64(s.GetStartTimeUnixNano())), Ended: time.Unix(0, int64(s.GetEndTimeUnixNano())),
		Attributes: textsOf(s.GetAttributes()),
		Failed:     s.GetStatus().GetCode() == tracev1.Status_STATUS_CODE_ERROR, Message: s.GetStatus().GetMessage(),
	}
}

func textsOf(attributes []*commonv1.KeyValue) map[string]string {
	texts := map[string]string{}
	for _, a := range attributes {
		texts[a.GetKey()] = a.GetValue().GetStringValue()
		if a.GetValue().GetStringValue() == "" {
			texts[a.GetKey()] = a.GetValue().String()
		}
	}
	return texts
}
