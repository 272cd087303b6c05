package archive

import (
	"bytes"
	"encoding/json"
	"maps"
	"net/url"
	"slices"
	"strings"
)

// Limits of a schema. Compiling takes a time that is the square of the number of schemas in it, and of how deep they are nested.
const (
	maxSchemaDepth   = 200
	maxSchemaObjects = 10_000
	maxSchemaValues  = 200_000
)

// schemaLocation is what Helm takes for the address of a schema.
const schemaLocation = "file:///values.schema.json"

// drafts are the meta-schemas that Helm's validator brings along.
var drafts = map[string]int{
	"json-schema.org/schema":               2020,
	"json-schema.org/draft/2020-12/schema": 2020,
	"json-schema.org/draft/2019-09/schema": 2019,
	"json-schema.org/draft-07/schema":      7,
	"json-schema.org/draft-06/schema":      6,
	"json-schema.org/draft-04/schema":      4,
}

var referring = []string{"$ref", "$dynamicRef", "$recursiveRef"}

// checkSchema refuses a schema that refers to anything outside of itself: Helm's validator would read the file, or fetch the address. What
// is no schema is for Helm to judge.
//
// A reference that does not begin with "#" is allowed if it means the schema itself, or one that is bundled with an $id of its own in $defs or
// definitions. The validator registers those before it follows any reference. An $id elsewhere it may come across late or early, as the order
// of a Go map decides: then no such reference is allowed.
func checkSchema(data []byte) error {
	if err := checkShape(data); err != nil {
		return err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	var document any
	if err := decoder.Decode(&document); err != nil {
		return nil //nolint:nilerr // it refers to nothing, and Helm says what is wrong unless it is told not to validate
	}
	root, ok := document.(map[string]any)
	if !ok {
		return nil
	}
	s := schema{draft: 2020, local: map[string]bool{schemaLocation: true}}
	if address, ok := root["$schema"].(string); ok {
		if s.draft, ok = draftOf(address); !ok {
			return unknownDraft(address)
		}
	}
	s.scattered = s.draft < 6 // addresses are called id, as much else is
	return s.check(root)
}

// checkShape counts in a JSON document without keeping anything of it.
func checkShape(data []byte) error {
	depth, objects, values := 0, 0, 0
	for i := 0; i < len(data); i++ {
		switch data[i] {
		case '"':
			for i++; i < len(data) && data[i] != '"'; i++ {
				if data[i] == '\\' {
					i++
				}
			}
		case '{', '[':
			if data[i] == '{' {
				objects++
			}
			values++
			if depth++; depth > maxSchemaDepth {
				return exceeded("is a schema that is nested deeper than %d", maxSchemaDepth)
			}
		case '}', ']':
			depth--
		case ',':
			values++
		}
	}
	if objects > maxSchemaObjects || values > maxSchemaValues {
		return exceeded("is a schema with %d objects and %d values; %d and %d are allowed", objects, values, maxSchemaObjects, maxSchemaValues)
	}
	return nil
}

func draftOf(address string) (int, bool) {
	rest, ok := strings.CutPrefix(address, "https://")
	if !ok {
		rest, ok = strings.CutPrefix(address, "http://")
	}
	draft, known := drafts[strings.TrimSuffix(rest, "#")]
	return draft, ok && known
}

func unknownDraft(address string) error {
	return invalid("names the meta-schema %q, which is not fetched; use one of json-schema.org, such as https://json-schema.org/draft/2020-12/schema", shorten(address))
}

// schema is what is known of one while it is checked.
type schema struct {
	draft int
	// local are the addresses of what is in the document.
	local map[string]bool
	// scattered tells that addresses are, or may be, given in other places.
	scattered  bool
	references []reference
}

type reference struct{ base, to string }

func (s *schema) check(root map[string]any) error {
	base := s.identify(root, schemaLocation)
	rest := without(root, "$id")
	for _, key := range []string{"definitions", "$defs"} {
		definitions, ok := root[key].(map[string]any)
		if !ok || key == "$defs" && s.draft < 2019 {
			continue
		}
		delete(rest, key)
		for _, name := range slices.Sorted(maps.Keys(definitions)) {
			if err := s.walkBundled(definitions[name], base); err != nil {
				return err
			}
		}
	}
	if err := s.walk(rest, base); err != nil {
		return err
	}
	for _, reference := range s.references {
		if !s.isLocal(reference) {
			return invalid(`refers to %q, which is outside of it and is not fetched; put the schema in $defs and refer to it with "#/$defs/..."`, shorten(reference.to))
		}
	}
	return nil
}

// walkBundled walks through a schema that may have an address.
func (s *schema) walkBundled(definition any, base string) error {
	object, ok := definition.(map[string]any)
	if !ok {
		return s.walk(definition, base)
	}
	return s.walk(without(object, "$id"), s.identify(object, base))
}

func without(object map[string]any, key string) map[string]any {
	rest := maps.Clone(object)
	delete(rest, key)
	return rest
}

// identify registers the address of an object that has one, and returns the base for what it refers to.
func (s *schema) identify(object map[string]any, base string) string {
	id, ok := object["$id"].(string)
	if !ok || !hasAddress(id) {
		return base
	}
	address, ok := resolve(base, id)
	if _, replaced := object["$ref"]; replaced || !ok || s.draft < 6 {
		s.scattered = true // depends on the draft, and perhaps it has none
		return base
	}
	s.local[address] = true
	return address
}

// walk finds references, and addresses where none are expected, whether the validator would take them for that or not.
func (s *schema) walk(value any, base string) error {
	switch value := value.(type) {
	case []any:
		for _, inner := range value {
			if err := s.walk(inner, base); err != nil {
				return err
			}
		}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(value)) {
			inner := value[key]
			if text, ok := inner.(string); ok {
				if err := s.keyword(key, text, base); err != nil {
					return err
				}
			} else if err := s.walk(inner, base); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *schema) keyword(key, text, base string) error {
	switch {
	case slices.Contains(referring, key):
		s.references = append(s.references, reference{base: base, to: text})
	case key == "$id":
		s.scattered = s.scattered || hasAddress(text)
	case key == "$schema":
		draft, ok := draftOf(text)
		if !ok {
			return unknownDraft(text)
		}
		s.scattered = s.scattered || draft != s.draft
	}
	return nil
}

func (s *schema) isLocal(reference reference) bool {
	if !hasAddress(reference.to) {
		return true
	}
	to, _, _ := strings.Cut(reference.to, "#")
	if _, known := draftOf(to); known {
		return true
	}
	address, ok := resolve(reference.base, to)
	return ok && s.local[address] && !s.scattered
}

// hasAddress tells whether a reference is more than a place in the document that it is in.
func hasAddress(reference string) bool { return reference != "" && reference[0] != '#' }

// resolve does what the validator does. Addresses without a hierarchy are no base for others.
func resolve(base, reference string) (string, bool) {
	reference, _, _ = strings.Cut(reference, "#")
	from, err := url.Parse(base)
	if err != nil {
		return "", false
	}
	to, err := url.Parse(reference)
	if err != nil || !to.IsAbs() && from.Opaque != "" {
		return "", false
	}
	return from.ResolveReference(to).String(), true
}
