package sdk

import (
	"errors"
	"log/slog"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

func TestMetrics(t *testing.T) {
	t.Parallel()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "calls_total", Help: "Calls."}, []string{"code"})
	calls.WithLabelValues("200").Add(3)
	registry := prometheus.NewRegistry()
	registry.MustRegister(calls)
	for name, test := range map[string]struct {
		gatherer prometheus.Gatherer // nil for none
		want     string
		code     codes.Code
	}{
		"none": {nil, "", codes.Unimplemented},
		"counter": {
			registry, "# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{code=\"200\"} 3\n", codes.OK,
		},
		"error": {prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			return nil, errors.New("no")
		}), "", codes.Unknown},
		"panic": {prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			panic("no") //nolint:forbidigo // what is tested
		}), "", codes.Unknown},
	} {
		options := []Option{Name("a"), Types("a")}
		if test.gatherer != nil {
			options = append(options, Metrics(test.gatherer))
		}
		p, err := deployerPlugin(deployerWith{}, options)
		if err != nil {
			t.Fatal(err)
		}
		out, err := newServer(p, slog.New(slog.DiscardHandler)).Metrics(t.Context(), nil)
		if status.Code(err) != test.code {
			t.Errorf("%s: expected the code %s, but found %v", name, test.code, err)
		}
		if diff := cmp.Diff(test.want, string(out.GetFamilies())); diff != "" {
			t.Errorf("%s: metrics (-want +got):\n%s", name, diff)
		}
		if has := p.Info.GetCapabilities().GetMetrics(); has != (test.gatherer != nil) {
			t.Errorf("%s: the capability is %t", name, has)
		}
	}
}
