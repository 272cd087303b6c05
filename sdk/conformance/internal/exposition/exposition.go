// Package exposition reads the metrics of a plugin as a host does.
package exposition

import (
	"bytes"
	"errors"
	"fmt"
	"unicode/utf8"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

const (
	// MaxSeries bounds the series, and maxBytes the size. The host shows no more.
	MaxSeries, maxBytes = 1000, 1 << 20
)

// Check returns what is wrong with the answer of a plugin to Metrics.
func Check(text []byte) (err error) {
	defer func() {
		if value := recover(); value != nil { // the parser does so for "#TYPE A\n{}0"
			err = fmt.Errorf("the parser panicked: %v", value)
		}
	}()
	series := 0
	for line := range bytes.Lines(text) {
		if line = bytes.TrimSpace(line); len(line) > 0 && line[0] != '#' {
			series++
		}
	}
	if len(text) > maxBytes || series > MaxSeries {
		return fmt.Errorf("%d series in %d bytes; the limits are %d series and %d bytes", series, len(text), MaxSeries,
			maxBytes)
	}
	if !utf8.Valid(text) { // the parser takes any bytes as help
		return errors.New("the answer is no UTF-8")
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	_, err = parser.TextToMetricFamilies(bytes.NewReader(text))
	return err
}
