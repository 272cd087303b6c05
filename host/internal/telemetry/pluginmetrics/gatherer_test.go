package pluginmetrics

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/pergola-deploy/pergola/host/internal/plugin"
)

// measured is a plugin with metrics.
type measured struct {
	name   string
	answer func(ctx context.Context) ([]byte, error)
}

func (m *measured) Name() string { return m.name }

func (m *measured) Metrics(ctx context.Context) ([]byte, error) { return m.answer(ctx) }

func answers(text string, err error) func(context.Context) ([]byte, error) {
	return func(context.Context) ([]byte, error) { return []byte(text), err }
}

// TestScrape: the metrics of the host and of good plugins are there, whatever the others do.
// Rule (telemetry.md#metrics-of-plugins): A plugin that is slow, wrong or dead does not keep other metrics from being
// shown.
func TestScrape(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hangs := func(ctx context.Context) ([]byte, error) {
			<-ctx.Done()
			return nil, ctx.Err()
		}
		wrong := &measured{"wrong", answers("a 1 1 1 1\n", nil)}
		plugins := []Plugin{
			wrong,
			&measured{"slow", hangs},
			&measured{"dead", answers("", plugin.ErrNotRunning)},
			&measured{"crashes", answers("", errors.New("the connection was closed"))},
			&measured{"a-b", answers("# HELP c One.\nc 1\n", nil)},
			&measured{"a", answers("# HELP b_c Another.\nb_c 2\n# TYPE same gauge\nsame 1\n", nil)},
			&measured{"b", answers("# TYPE same counter\nsame 2\n", nil)},
		}
		registry := prometheus.NewRegistry()
		registry.MustRegister(prometheus.NewCounter(prometheus.CounterOpts{
			Name: "pergola_jobs_total", Help: "Jobs.",
		}))
		var log bytes.Buffer
		all, err := Beside(registry, func() []Plugin { return plugins }, slog.New(slog.NewTextHandler(&log, nil)))
		if err != nil {
			t.Fatal(err)
		}
		scrape := func() string {
			answer := httptest.NewRecorder()
			promhttp.HandlerFor(all, promhttp.HandlerOpts{}).ServeHTTP(answer,
				httptest.NewRequestWithContext(t.Context(), "GET", "/metrics", nil))
			if answer.Code != 200 {
				t.Errorf("expected 200, but found %d: %s", answer.Code, answer.Body)
			}
			return answer.Body.String()
		}
		expect := func(text string, parts ...string) {
			t.Helper()
			for _, part := range parts {
				if !strings.Contains(text, "\n"+part) {
					t.Errorf("expected %q in\n%s", part, text)
				}
			}
		}
		const incomplete = "pergola_plugin_metrics_incomplete"
		expect(scrape(), "pergola_jobs_total 0", "plugin_a_same 1", "plugin_b_same 2", "plugin_a_b_c 2",
			incomplete+`{plugin="slow"} 1`, incomplete+`{plugin="wrong"} 1`, incomplete+`{plugin="crashes"} 1`,
			incomplete+`{plugin="dead"} 0`, incomplete+`{plugin="a"} 0`)
		scrape()
		if n := strings.Count(log.String(), "plugin=wrong"); n != 1 {
			t.Errorf("expected one record about the wrong plugin in two scrapes, but found %d:\n%s", n, log.String())
		}
		wrong.answer = answers("good 1\n", nil)
		expect(scrape(), "plugin_wrong_good 1", incomplete+`{plugin="wrong"} 0`)
	})
}
