package serving

import (
	"bytes"
	"fmt"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
)

// Metrics returns all metrics in the text format of Prometheus.
func Metrics(gather func() ([]*dto.MetricFamily, error)) ([]byte, error) {
	families, err := gather()
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	for _, family := range families {
		if _, err := expfmt.MetricFamilyToText(&out, family); err != nil {
			return nil, fmt.Errorf("write metric %q: %w", family.GetName(), err)
		}
	}
	return out.Bytes(), nil
}
