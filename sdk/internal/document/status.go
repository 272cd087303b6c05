package document

import (
	"encoding/json"
	"fmt"
	"reflect"
)

// Status keeps the fields of a decoded provider status without a place in its Go type, for those marshalled after it.
type Status struct {
	apiVersion string
	unknown    *unknown // nil for none
}

// Decode reads a provider status.
func (s *Status) Decode(document []byte, into any) error {
	if err := json.Unmarshal(document, into); err != nil {
		return err
	}
	value, err := numbers(document)
	if err != nil {
		return err
	}
	s.unknown = unknownFields(value, reflect.TypeOf(into))
	s.apiVersion, _ = GroupVersionKind(document)
	return nil
}

// Marshal returns the JSON of a provider status, with the kept fields if it has the apiVersion of the decoded one.
func (s *Status) Marshal(status any) ([]byte, error) {
	document, err := json.Marshal(status)
	if err != nil {
		return nil, err
	}
	apiVersion, kind := GroupVersionKind(document)
	// The message of the API server would not lead the author here.
	if apiVersion == "" || kind == "" {
		return nil, fmt.Errorf("%T has no apiVersion or no kind; a provider status needs both", status)
	}
	if s.unknown == nil || s.apiVersion != apiVersion {
		return document, nil
	}
	value, err := numbers(document)
	if err != nil {
		return nil, err
	}
	s.unknown.restore(value)
	return json.Marshal(value)
}
