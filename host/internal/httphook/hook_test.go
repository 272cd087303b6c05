package httphook

import (
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
)

func TestParseTimeout(t *testing.T) {
	t.Parallel()
	for text, tc := range map[string]struct {
		reason string
		want   time.Duration // zero for an error
	}{
		"":      {reason: "the default", want: 15 * time.Second},
		"PT10S": {reason: "seconds", want: 10 * time.Second},
		// Rule (hooks.md#registration): `timeout` is an ISO 8601 duration.
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
	} {
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
	for _, tc := range []struct {
		registration string
		code         int
		body         string
	}{
		{"a", 200, ""}, {"a", 200, `{}`}, {"a", 200, "no JSON"}, {"a", 302, ""}, {"a", 503, ""},
		{"b", 418, `{"permanent":true}`},
	} {
		h := New(Options{Registration: tc.registration, URL: serve(t, answering(tc.code, tc.body)), Metrics: metrics})
		for _, call := range phases {
			_ = call(t, h) // what comes of it is what the metrics say
		}
	}
	ofB := map[string]float64{
		"418 finalize b": 1, "418 pre-reconcile b": 1, "finalize b": 1, "pre-reconcile b": 1,
	}
	want := map[string]float64{
		"200 finalize a": 2, "503 finalize a": 1, "error finalize a": 2, "finalize a": 5,
		"200 pre-reconcile a": 2, "503 pre-reconcile a": 1, "error pre-reconcile a": 2, "pre-reconcile a": 5,
	}
	maps.Copy(want, ofB)
	expectMetrics(t, metrics, want)
	metrics.forget("a")
	expectMetrics(t, metrics, ofB)
}

// expectMetrics checks all series: the requests by code, phase and registration, and how many durations by the others.
func expectMetrics(t *testing.T, metrics *Metrics, want map[string]float64) {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	if err := metrics.Register(registry); err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]float64{}
	for _, family := range families {
		for _, series := range family.GetMetric() {
			var labels []string
			for _, label := range series.GetLabel() { // which are in order
				labels = append(labels, label.GetValue())
			}
			found[strings.Join(labels, " ")] = series.GetCounter().GetValue() +
				float64(series.GetHistogram().GetSampleCount())
		}
	}
	if diff := cmp.Diff(want, found); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}
