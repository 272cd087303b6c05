package pluginmetrics

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// textOf is what a Prometheus gets.
func textOf(tb testing.TB, families []*dto.MetricFamily) string {
	tb.Helper()
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			tb.Fatalf("a family that is checked cannot be written: %v", err)
		}
	}
	return out.String()
}

func TestRead(t *testing.T) {
	t.Parallel()
	many := func(n int) string {
		var text strings.Builder
		for i := range n {
			fmt.Fprintf(&text, "many{n=\"%d\"} 1\n", i)
		}
		return text.String()
	}
	const histogram = "h_bucket{le=\"1\"} 1\nh_bucket{le=\"+Inf\"} 2\nh_sum 3\nh_count 2\n"
	for name, tc := range map[string]struct {
		answer string
		want   string // with the prefix
		err    string // a part of the error, empty for none
	}{
		"nothing": {},
		// Rule (telemetry.md#metrics-of-plugins): A metric of a plugin is shown under the name of the plugin.
		"a counter": {
			"# HELP calls_total Calls.\n# TYPE calls_total counter\ncalls_total{code=\"200\"} 3\n",
			"# HELP plugin_my_dns_calls_total Calls.\n# TYPE plugin_my_dns_calls_total counter\n" +
				"plugin_my_dns_calls_total{code=\"200\"} 3\n", "",
		},
		"a histogram": {
			"# TYPE h histogram\n" + histogram,
			"# TYPE plugin_my_dns_h histogram\n" + strings.ReplaceAll(histogram, "h_", "plugin_my_dns_h_"), "",
		},
		"a series twice": {
			"a{x=\"1\",y=\"2\"} 1\na{y=\"2\",x=\"1\"} 2\nb 1\n",
			"# TYPE plugin_my_dns_a untyped\nplugin_my_dns_a{x=\"1\",y=\"2\"} 1\n" +
				"# TYPE plugin_my_dns_b untyped\nplugin_my_dns_b 1\n", "collected before with the same name and label values",
		},
		"a label twice": {
			"a{x=\"1\",y=\"2\",x=\"1\"} 1\nb 1\n", "", "label names",
		},
		"a reserved label":      {"a{__x=\"1\"} 1\n", "", "invalid name: __x"},
		"another format":        {`{"a": 1}`, "", "no text format of Prometheus"},
		"a panic of the parser": {"#TYPE A \n{}0", "", "no text format of Prometheus"},
		"no UTF-8":              {"# HELP a \xff\na 1\n", "", "no UTF-8"},
		// Rule (telemetry.md#metrics-of-plugins): Of a plugin with more than 1,000 series some metrics are left out.
		"too many series": {
			"a 1\n" + many(MaxSeries) + "z 1\n",
			"# TYPE plugin_my_dns_a untyped\nplugin_my_dns_a 1\n# TYPE plugin_my_dns_z untyped\nplugin_my_dns_z 1\n",
			"1000 of 1002 series are left out",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			families, err := read("my-dns", []byte(tc.answer))
			if fmt.Sprint(err) == "<nil>" != (tc.err == "") || !strings.Contains(fmt.Sprint(err), tc.err) {
				t.Errorf("expected the error %q, but found %v", tc.err, err)
			}
			if diff := cmp.Diff(tc.want, textOf(t, families)); diff != "" {
				t.Errorf("metrics (-want +got):\n%s", diff)
			}
		})
	}
}

// FuzzRead: whatever a plugin answers, a Prometheus can read what is made of it.
func FuzzRead(f *testing.F) {
	f.Add([]byte("# HELP a b\n# TYPE a counter\na{b=\"c\"} 1 5\n"))
	f.Add([]byte("# TYPE h histogram\nh_bucket{le=\"1\"} 1\nh_sum NaN\nh_count 1\n"))
	f.Add([]byte("# TYPE s summary\ns{quantile=\"0.5\"} 1\ns_sum 1\n"))
	f.Add([]byte("{\"a\",b=\"c\"} 1\n# UNIT a b\n# EOF"))
	f.Add([]byte("#TYPE A \n{}0"))
	f.Fuzz(func(t *testing.T, answer []byte) {
		families, _ := read("x", answer)
		text := textOf(t, families)
		parser := expfmt.NewTextParser(model.LegacyValidation)
		if _, err := parser.TextToMetricFamilies(strings.NewReader(text)); err != nil {
			t.Errorf("%v of\n%s", err, text)
		}
		for _, family := range families {
			if !strings.HasPrefix(family.GetName(), "plugin_x_") {
				t.Errorf("the name %q has no prefix", family.GetName())
			}
		}
	})
}
