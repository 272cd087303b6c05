package configtest

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"
)

// spoil reads a valid document again with each mistake.
func (s Suite) spoil(t *testing.T, valid []byte) {
	t.Helper()
	var document map[string]any
	if err := json.Unmarshal(valid, &document); err != nil {
		t.Fatal(err)
	}
	s.visit(document, "", func(place string, spoilt any) {
		bad, err := json.Marshal(spoilt)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Read(t, bad, true)) == 0 {
			t.Errorf("%s: the reader accepts it", place)
		}
		if s.Schema.Validate(t, bad) == nil {
			t.Errorf("%s: the schema accepts it", place)
		}
	})
}

// visit calls try with each value that has one mistake more than a value of the document.
func (s Suite) visit(value any, path string, try func(place string, spoilt any)) {
	switch v := value.(type) {
	case map[string]any:
		with := func(name string, other any) map[string]any {
			spoilt := maps.Clone(v)
			spoilt[name] = other
			return spoilt
		}
		try(path+" with an unknown field", with("unknownField", true))
		for name, inner := range v {
			below := func(place string, other any) { try(place, with(name, other)) }
			switch {
			case slices.Contains(s.Anything, name):
			case slices.Contains(s.Objects, name):
				below(path+"."+name+" of a wrong type", "text")
			default:
				s.visitField(inner, path+"."+name, below)
			}
		}
	case []any:
		for i, inner := range v {
			s.visitField(inner, fmt.Sprintf("%s[%d]", path, i), func(place string, other any) {
				spoilt := slices.Clone(v)
				spoilt[i] = other
				try(place, spoilt)
			})
		}
	}
}

func (s Suite) visitField(value any, path string, try func(place string, spoilt any)) {
	var wrong any = "text"
	switch value.(type) {
	case map[string]any, []any:
	default:
		wrong = []any{true}
	}
	try(path+" of a wrong type", wrong)
	s.visit(value, path, try)
}
