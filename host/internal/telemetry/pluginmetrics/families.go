package pluginmetrics

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// MaxSeries bounds the series of one plugin. A histogram has one for each bucket, and two more.
const MaxSeries = 1000

// read returns the metric families in the answer of a plugin under its name. The error names the rest.
func read(plugin string, text []byte) ([]*dto.MetricFamily, error) {
	if !utf8.Valid(text) { // the parser takes any bytes as help
		return nil, errors.New("its answer is no UTF-8")
	}
	byName, err := parse(text)
	if err != nil {
		return nil, fmt.Errorf("its answer is no text format of Prometheus: %w", err)
	}
	var families []*dto.MetricFamily
	series, left := 0, 0
	for _, name := range slices.Sorted(maps.Keys(byName)) {
		family := byName[name]
		n := seriesOf(family)
		if series+n > MaxSeries {
			left += n
			continue
		}
		series += n
		families = append(families, prefixed(plugin, family))
	}
	families, err = consistent(families)
	if left > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d series are left out; at most %d are shown", left, series+left, MaxSeries))
	}
	return families, err
}

// parse reads the text format of Prometheus.
func parse(text []byte) (families map[string]*dto.MetricFamily, err error) {
	defer func() {
		if value := recover(); value != nil { // the parser does so for "#TYPE A\n{}0"
			err = fmt.Errorf("the parser panicked: %v", value)
		}
	}()
	parser := expfmt.NewTextParser(model.LegacyValidation)
	return parser.TextToMetricFamilies(bytes.NewReader(text))
}

// prefixed names a family after its plugin. No metric of the host begins with plugin_.
func prefixed(plugin string, family *dto.MetricFamily) *dto.MetricFamily {
	family.Name = new("plugin_" + strings.ReplaceAll(plugin, "-", "_") + "_" + family.GetName())
	for _, metric := range family.GetMetric() {
		slices.SortFunc(metric.GetLabel(), func(a, b *dto.LabelPair) int {
			return strings.Compare(a.GetName(), b.GetName())
		})
	}
	return family
}

// seriesOf is the number of series of a family.
func seriesOf(family *dto.MetricFamily) int {
	n := 0
	for _, metric := range family.GetMetric() {
		n += 1 + len(metric.GetHistogram().GetBucket()) + len(metric.GetSummary().GetQuantile())
		if metric.GetHistogram() != nil || metric.GetSummary() != nil {
			n++
		}
	}
	return n
}

// consistent returns the families without series unfit for a Prometheus, such as repeated ones. Of several families
// with one name, such as of the plugins a-b and a, the first counts.
func consistent(families []*dto.MetricFamily) ([]*dto.MetricFamily, error) {
	families = slices.DeleteFunc(families, func(f *dto.MetricFamily) bool {
		return f.GetType() > dto.MetricType_HISTOGRAM // the text format has no other
	})
	return prometheus.Gatherers{prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		return families, nil
	})}.Gather()
}
