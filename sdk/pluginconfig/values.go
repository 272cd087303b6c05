package pluginconfig

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Amount is an amount of bytes. In a document it is a text as for memory in Kubernetes, such as 512Mi.
type Amount struct {
	// Bytes is negative for an invalid text.
	Bytes int64
	// Text is the amount as it is written.
	Text string
}

// amounts are the accepted quantities: no negative ones, and no exponents, because the library takes some for zero
// and is busy with others for minutes.
var amounts = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$`)

// AmountOf returns the amount with a text.
func AmountOf(text string) Amount {
	a := Amount{Bytes: -1, Text: text}
	if !amounts.MatchString(text) {
		return a
	}
	if quantity, err := resource.ParseQuantity(text); err == nil {
		a.Bytes = quantity.Value()
	}
	return a
}

// UnmarshalText implements encoding.TextUnmarshaler. Problems.Amount reports an invalid text.
func (a *Amount) UnmarshalText(text []byte) error {
	*a = AmountOf(string(text))
	return nil
}

// Duration is a time. In a document it is a text as in Go, such as 90s or 1h30m.
type Duration struct {
	// Duration is negative for an invalid text.
	time.Duration

	// Text is the time as it is written.
	Text string
}

// DurationOf returns the time with a text.
func DurationOf(text string) Duration {
	span, err := time.ParseDuration(text)
	if err != nil {
		span = -1
	}
	return Duration{span, text}
}

// UnmarshalText implements encoding.TextUnmarshaler. Problems.Duration reports an invalid text.
func (d *Duration) UnmarshalText(text []byte) error {
	*d = DurationOf(string(text))
	return nil
}

// Number reports a number outside of 1 to most.
func (p *Problems) Number(field string, found, most int) {
	if found < 1 || found > most {
		p.Add(field, "expected a number from 1 to %d, but found %d", most, found)
	}
}

// Amount reports an invalid amount, or one outside of its bounds.
func (p *Problems) Amount(field string, found, least, most Amount) {
	if found.Bytes < least.Bytes || found.Bytes > most.Bytes {
		shown := found.Text
		if found.Bytes < 0 {
			shown = fmt.Sprintf("%q", shown)
		}
		p.Add(field, "expected an amount from %s to %s, such as 20Mi, but found %s", least.Text, most.Text, shown)
	}
}

// Duration reports an invalid time, or one outside of its bounds.
func (p *Problems) Duration(field string, found Duration, least, most time.Duration) {
	if found.Duration < least || found.Duration > most {
		p.Add(field, "expected a time from %s to %s, such as 90s or 1h30m, but found %q", least, most, found.Text)
	}
}
