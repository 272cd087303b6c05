package httphook

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		want   time.Duration // zero for an error
	}{
		"":                        {reason: "the default", want: 15 * time.Second},
		"PT10S":                   {reason: "seconds", want: 10 * time.Second},
		"PT1M30S":                 {reason: "two parts", want: 90 * time.Second},
		"PT0.5S":                  {reason: "a fraction", want: 500 * time.Millisecond},
		"PT10M":                   {reason: "the longest", want: 10 * time.Minute},
		"PT10M0.001S":             {reason: "longer than the longest"},
		"PT0S":                    {reason: "no time at all"},
		"PT0.0000000001S":         {reason: "less than there is"},
		"PT":                      {reason: "nothing said"},
		"P1D":                     {reason: "no days: longer than the longest"},
		"-PT1S":                   {reason: "negative"},
		"PT1,5S":                  {reason: "a comma: the parser does not take it"},
		"PT1.5":                   {reason: "no unit"},
		"10s":                     {reason: "Go's own form"},
		"PT1S\n":                  {reason: "white space"},
		"PT١S":                    {reason: "digits of another script"},
		"PT99999999999999999999H": {reason: "too long for any type"},
	}
	for text, tc := range tests {
		t.Run(text, func(t *testing.T) {
			t.Parallel()
			got, err := parseTimeout(text)
			if got != tc.want || (err == nil) != (tc.want > 0) {
				t.Errorf("%s: expected %v, but found %v (%v)", tc.reason, tc.want, got, err)
			}
		})
	}
}

func TestMetrics(t *testing.T) {
	t.Parallel()
	metrics := NewMetrics()
	ask := func(registration string, code int, body string) {
		h := New(Options{Registration: registration, URL: serve(t, answering(code, body)), Metrics: metrics})
		defer h.Close()
		for _, call := range phases {
			_ = call(t, h) // what comes of it is what the metrics say
		}
	}
	ask("a", 200, "")
	ask("a", 200, `{}`)
	ask("a", 200, "no JSON")
	ask("a", 302, "")
	ask("a", 503, "")
	ask("b", 418, `{"permanent":true}`)
	of := func(registration, code string) []string {
		var lines []string
		for _, phase := range []string{"finalize", "pre-reconcile"} {
			lines = append(lines, fmt.Sprintf(
				"pergola_http_hook_requests_total{code=%q,phase=%q,registration=%q} ", code, phase, registration))
		}
		return lines
	}
	expectMetrics(t, metrics,
		of("a", "200")[0]+"2", of("a", "200")[1]+"2", of("a", "503")[0]+"1", of("a", "503")[1]+"1", of("a", "error")[0]+"2",
		of("a", "error")[1]+"2",
		of("b", "418")[0]+"1", of("b", "418")[1]+"1",
		`pergola_http_hook_request_duration_seconds_count{phase="finalize",registration="a"} 5`,
		`pergola_http_hook_request_duration_seconds_count{phase="pre-reconcile",registration="b"} 1`,
	)
	metrics.forget("a")
	if text := gather(t, metrics); strings.Contains(text, `registration="a"`) ||
		!strings.Contains(text, `registration="b"`) {
		t.Errorf("expected metrics of b alone, but found\n%s", text)
	}
}

// expectMetrics checks that lines are there, and that there are no other series of requests.
func expectMetrics(t *testing.T, metrics *Metrics, lines ...string) {
	t.Helper()
	text := gather(t, metrics)
	wanted := 0
	for _, line := range lines {
		if strings.HasPrefix(line, "pergola_http_hook_requests_total") {
			wanted++
		}
		if !strings.Contains(text, line+"\n") {
			t.Errorf("expected the metric %s", line)
		}
	}
	if found := strings.Count(text, "pergola_http_hook_requests_total{"); t.Failed() || found != wanted {
		t.Errorf("expected %d series of requests, but found %d in\n%s", wanted, found, text)
	}
}

// gather returns the metrics as a Prometheus reads them.
func gather(t *testing.T, metrics *Metrics) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := metrics.Register(registry); err != nil {
		t.Fatal(err)
	}
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(recorder,
		httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/metrics", nil))
	return recorder.Body.String()
}
