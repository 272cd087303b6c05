package tracing_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"go.opentelemetry.io/otel/trace"

	"github.com/pergola-deploy/pergola/plugins/internal/tracing"
	"github.com/pergola-deploy/pergola/test/testenv"
)

// target answers requests as their paths say.
type target struct{}

func (target) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Path == "/down" {
		return nil, errors.New("down: the token is secret")
	}
	code := http.StatusOK
	if request.URL.Path == "/forbidden" {
		code = http.StatusForbidden
	}
	return &http.Response{StatusCode: code, Body: http.NoBody}, nil
}

// parent is the context of a call that a host traces, or not.
func parent(ctx context.Context, sampled bool) context.Context {
	config := trace.SpanContextConfig{TraceID: trace.TraceID{1}, SpanID: trace.SpanID{2}, Remote: true}
	if sampled {
		config.TraceFlags = trace.FlagsSampled
	}
	return trace.ContextWithSpanContext(ctx, trace.NewSpanContext(config))
}

func get(ctx context.Context, t *testing.T, path string) {
	t.Helper()
	request, err := http.NewRequestWithContext(
		ctx, http.MethodGet, "https://target:6443"+path+"?token=secret", http.NoBody,
	)
	if err != nil {
		t.Fatal(err)
	}
	response, err := tracing.Transport(target{}).RoundTrip(request)
	if err != nil {
		return
	}
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
}

func TestSpans(t *testing.T) { //nolint:paralleltest // the environment is that of the process
	get(parent(t.Context(), true), t, "/before") // no destination is known
	collector := testenv.StartCollector(t)
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://"+collector.Address)
	end := tracing.Start(t.Context(), "manifest", "v1")
	get(t.Context(), t, "/alone")
	get(parent(t.Context(), false), t, "/unsampled")
	for _, path := range []string{"/found", "/forbidden", "/down"} {
		get(parent(t.Context(), true), t, path)
	}
	end()
	var got []string
	for _, s := range collector.Spans() {
		if s.Service != "pergola-manifest" || s.Parent != "0200000000000000" || !strings.HasPrefix(s.TraceID, "01") ||
			strings.Contains(s.Message, "secret") {
			t.Errorf("%+v", s)
		}
		line := s.Name + " " + s.Attributes["url.path"]
		if s.Failed {
			line += " " + s.Message
		}
		got = append(got, line)
	}
	if want := "GET target /found, GET target /forbidden Forbidden, GET target /down " +
		"no answer"; strings.Join(got, ", ") != want {
		t.Errorf("expected %s, but found %s", want, strings.Join(got, ", "))
	}
}

// Without the variables nothing is set up, and nothing has to be ended.
func TestNobodySaysWhereTo(t *testing.T) { //nolint:paralleltest // as above
	t.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "")
	t.Setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "")
	tracing.Start(t.Context(), "manifest", "v1")()
}
