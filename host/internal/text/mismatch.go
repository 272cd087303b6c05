package text

import (
	"cmp"
	"encoding/json"
	"errors"
	"reflect"
	"strings"
)

// words are the user's words for the types of JSON and the kinds of Go.
var words = map[string]string{
	"string": "a text", "bool": "true or false", "array": "a list", "object": "an object", "number": "a number",
	"slice": "a list", "map": "an object", "struct": "an object", "float64": "a number",
}

// Mismatch describes a value of the wrong type from the error of a JSON decoder: its field, empty for the document as a
// whole, and a sentence. The sentence holds no value but those quoted by unmarshalers of the caller. expected has the
// words for types with a text form of their own; it may be nil. ok is false for any other error.
func Mismatch(err error, expected map[reflect.Type]string) (field, sentence string, ok bool) {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return "", "", false
	}
	word, kind := cmp.Or(expected[wrong.Type], words[wrong.Type.Kind().String()]), wrong.Value
	found, help := words[kind], ""
	switch {
	case word == "" && strings.HasPrefix(kind, "number "):
		found = "another number"
	case strings.HasPrefix(kind, `"`):
		found = kind
	case wrong.Type.Kind() == reflect.String && (kind == "bool" || kind == "number"):
		help = "; quotes make it a text"
	}
	sentence = "expected " + cmp.Or(word, "a whole number") + ", but found " + cmp.Or(found, "another value") + help
	return wrong.Field, sentence, true
}
