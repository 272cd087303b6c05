package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
)

// knownCondition is a Condition without its methods.
type knownCondition Condition

var (
	_ json.Marshaler   = Condition{}
	_ json.Unmarshaler = (*Condition)(nil)
)

// MarshalJSON writes the known fields of the type, and the unknown ones beside them.
func (c Condition) MarshalJSON() ([]byte, error) {
	known, err := json.Marshal(knownCondition(c))
	if err != nil {
		return nil, fmt.Errorf("marshal condition: %w", err)
	}
	if len(c.Unknown) == 0 {
		return known, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(known, &fields); err != nil {
		return nil, fmt.Errorf("marshal condition: %w", err)
	}
	all := maps.Clone(c.Unknown)
	maps.Copy(all, fields)
	out, err := json.Marshal(all)
	if err != nil {
		return nil, fmt.Errorf("marshal condition: %w", err)
	}
	return out, nil
}

// UnmarshalJSON reads the known fields of the type, and keeps the others.
func (c *Condition) UnmarshalJSON(document []byte) error {
	var known knownCondition
	if err := json.Unmarshal(document, &known); err != nil {
		return fmt.Errorf("unmarshal condition: %w", err)
	}
	var unknown map[string]json.RawMessage
	if err := json.Unmarshal(document, &unknown); err != nil {
		return fmt.Errorf("unmarshal condition: %w", err)
	}
	for _, field := range []string{
		"type", "status", "lastTransitionTime", "lastUpdateTime", "reason", "message", "codes",
	} {
		delete(unknown, field)
	}
	if len(unknown) == 0 {
		unknown = nil
	}
	*c = Condition(known)
	c.Unknown = unknown
	return nil
}
