package v1alpha1

import (
	"fmt"
	"time"
)

// NoDuration switches a timeout off.
const NoDuration Duration = "none"

// Duration is a span of time as time.ParseDuration reads it, or "none".
//
// It keeps the text as it was written and is read only where it is used: one object with a malformed duration, written
// before the CRD's pattern was in force, must not make a whole list undecodable.
//
// +kubebuilder:validation:MaxLength=64
// +kubebuilder:validation:Pattern=`^(none|0|[+]?(([0-9]+(\.[0-9]*)?|\.[0-9]+)(ns|us|µs|μs|ms|s|m|h))+)$`
type Duration string

// Parse returns the span of time; limited is false for "none" and for zero, Landscaper's "none" in Go. The error names
// the text.
func (d Duration) Parse() (span time.Duration, limited bool, err error) {
	if d == NoDuration {
		return 0, false, nil
	}
	span, err = time.ParseDuration(string(d))
	if err != nil {
		return 0, false, fmt.Errorf("expected a duration such as 10m or 1h30m, or %q, but found %q", NoDuration, string(d))
	}
	if span < 0 {
		return 0, false, fmt.Errorf("expected a positive duration, but found %q", string(d))
	}
	return span, span != 0, nil
}
