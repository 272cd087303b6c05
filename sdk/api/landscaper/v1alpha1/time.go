package v1alpha1

import (
	"encoding/json"
	"fmt"
	"time"
)

// Time is a point in time, in seconds, in the status of an object.
//
// Unlike metav1.Time it can be read from anything in an API server: a text that is no time reads as the zero time. API
// servers take more for a time than Go does, such as one in lower case, and for a field with a format they even take a
// list; one such object must not make a whole list undecodable.
//
// +kubebuilder:validation:Type=string
// +kubebuilder:validation:Format=date-time
// +kubebuilder:object:generate=false
type Time struct {
	time.Time
}

var (
	_ json.Marshaler   = Time{}
	_ json.Unmarshaler = (*Time)(nil)
)

// NewTime returns t as a Time.
func NewTime(t time.Time) Time { return Time{Time: t} }

// Now returns the current time.
func Now() Time { return NewTime(time.Now()) }

// IsZero reports whether there is no time: t is nil or zero.
func (t *Time) IsZero() bool { return t == nil || t.Time.IsZero() }

// Before reports whether t is before u; false if one of them is nil.
func (t *Time) Before(u *Time) bool { return t != nil && u != nil && t.Time.Before(u.Time) }

// Equal reports whether t and u are the same instant, or both nil.
func (t *Time) Equal(u *Time) bool {
	if t == nil || u == nil {
		return t == u
	}
	return t.Time.Equal(u.Time)
}

// MarshalJSON writes the time as RFC 3339 has it, in UTC and seconds; the zero time is null.
func (t Time) MarshalJSON() ([]byte, error) {
	if t.IsZero() {
		return []byte("null"), nil
	}
	out, err := json.Marshal(t.UTC().Format(time.RFC3339))
	if err != nil {
		return nil, fmt.Errorf("marshal time: %w", err)
	}
	return out, nil
}

// UnmarshalJSON reads a time as RFC 3339 has it. Anything else is the zero time, and no error; see Time.
func (t *Time) UnmarshalJSON(document []byte) error {
	*t = Time{}
	var parsed time.Time
	if err := parsed.UnmarshalJSON(document); err == nil && !parsed.IsZero() {
		t.Time = parsed.Local()
	}
	return nil
}

// DeepCopyInto copies the time.
func (t *Time) DeepCopyInto(out *Time) { *out = *t }

// DeepCopy returns a copy; nil of nil.
func (t *Time) DeepCopy() *Time {
	if t == nil {
		return nil
	}
	out := *t
	return &out
}
