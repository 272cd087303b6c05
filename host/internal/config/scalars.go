package config

import (
	"encoding/json"
	"reflect"
	"strconv"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
)

// Duration is a span of time. In a document it is a text such as 30s or 5m.
type Duration struct {
	time.Duration
}

// MarshalText implements encoding.TextMarshaler.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. To its error the decoder adds the field.
func (d *Duration) UnmarshalText(text []byte) error {
	var err error
	if d.Duration, err = time.ParseDuration(string(text)); err != nil {
		return &json.UnmarshalTypeError{Value: strconv.Quote(string(text)), Type: reflect.TypeFor[Duration]()}
	}
	return nil
}

// Bytes is an amount of memory. In a document it is a text as Kubernetes has it for memory, such as 512Mi or 1.5G.
type Bytes int64

// String writes b as a document does, with the largest unit that fits.
func (b Bytes) String() string { return resource.NewQuantity(int64(b), resource.BinarySI).String() }

// MarshalText implements encoding.TextMarshaler.
func (b Bytes) MarshalText() ([]byte, error) { return []byte(b.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler. To its error the decoder adds the field.
func (b *Bytes) UnmarshalText(text []byte) error {
	quantity, err := resource.ParseQuantity(string(text))
	if err != nil {
		return &json.UnmarshalTypeError{Value: strconv.Quote(string(text)), Type: reflect.TypeFor[Bytes]()}
	}
	*b = Bytes(quantity.Value())
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (l *Locking) UnmarshalJSON(value []byte) error { return unmarshalSwitch(value, (*string)(l)) }

// UnmarshalJSON implements json.Unmarshaler.
func (k *KeepReferences) UnmarshalJSON(value []byte) error {
	return unmarshalSwitch(value, (*string)(k))
}

// UnmarshalJSON implements json.Unmarshaler.
func (v *Verification) UnmarshalJSON(value []byte) error { return unmarshalSwitch(value, (*string)(v)) }

// UnmarshalJSON implements json.Unmarshaler.
func (m *ConfinementMode) UnmarshalJSON(value []byte) error {
	return unmarshalSwitch(value, (*string)(m))
}

// unmarshalSwitch reads a text. YAML takes on and off without quotes for true and false.
func unmarshalSwitch(value []byte, into *string) error {
	switch string(value) {
	case "true":
		*into = "on"
	case "false":
		*into = "off"
	default:
		return json.Unmarshal(value, into) //nolint:wrapcheck // the decoder adds the field
	}
	return nil
}
