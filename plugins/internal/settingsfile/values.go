package settingsfile

import (
	"fmt"
	"regexp"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Number reads a number from 1 to most. A missing one, or a wrong and reported one, leaves into unchanged.
func (p *Problems) Number(field string, found *int, most int, into *int) {
	switch {
	case found == nil:
	case *found < 1 || *found > most:
		p.Add(field, "expected a number from 1 to %d, but found %d", most, *found)
	default:
		*into = *found
	}
}

// amounts are the accepted quantities: no negative ones, and no exponents, because the library takes some for zero
// and is busy with others for minutes.
var amounts = regexp.MustCompile(`^[0-9]{1,15}(\.[0-9]{1,3})?(k|M|G|T|Ki|Mi|Gi|Ti)?$`)

// Amount is like Number for an amount of bytes, a text as for memory in Kubernetes, such as 512Mi.
func (p *Problems) Amount(field string, found *string, least, most int64, into *int64) {
	if found == nil {
		return
	}
	expected := fmt.Sprintf("an amount from %s to %s, such as 20Mi", ShowAmount(least), ShowAmount(most))
	if !amounts.MatchString(*found) {
		p.Add(field, "expected %s, but found %q", expected, *found)
		return
	}
	quantity, err := resource.ParseQuantity(*found)
	if err != nil || quantity.Value() < least || quantity.Value() > most {
		p.Add(field, "expected %s, but found %s", expected, *found)
		return
	}
	*into = quantity.Value()
}

// ShowAmount writes an amount as in a document, with the largest fitting unit.
func ShowAmount(amount int64) string { return resource.NewQuantity(amount, resource.BinarySI).String() }

// Duration is like Number for a time, a text as in Go, such as 90s or 1h30m.
func (p *Problems) Duration(field string, found *string, least, most time.Duration, into *time.Duration) {
	if found == nil {
		return
	}
	span, err := time.ParseDuration(*found)
	if err != nil || span < least || span > most {
		p.Add(field, "expected a time from %s to %s, such as 90s or 1h30m, but found %q", least, most, *found)
		return
	}
	*into = span
}
