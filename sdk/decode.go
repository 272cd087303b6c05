package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// mostWrong bounds how many values of a wrong type are reported: the document is decoded once more after each.
const mostWrong = 20

// decode reads JSON into a struct. It returns every unknown or duplicate field, and every value of the wrong type. Such a value is read as
// the empty one of the type that is expected: that it is there is true, and what it says nobody knows.
func decode(document []byte, into any) (unknown []string, wrong []Problem, err error) {
	for {
		strictErrs, err := kjson.UnmarshalStrict(document, into)
		var wrongType *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrongType):
			field, at := fieldAt(document, wrongType)
			if len(wrong) == mostWrong || slices.ContainsFunc(wrong, func(p Problem) bool { return p.Field == field }) {
				return nil, wrong, nil
			}
			wrong = append(wrong, Problem{
				Field: field, Message: fmt.Sprintf("expected %s, but found %s", expectation(wrongType.Type), article(wrongType.Value)),
			})
			document = replaceAt(document, at, empty(wrongType.Type))
			continue
		case err != nil && len(wrong) > 0:
			return nil, wrong, nil
		case err != nil:
			return nil, nil, err
		}
		for _, strictErr := range strictErrs {
			unknown = append(unknown, strictErr.Error())
		}
		return unknown, wrong, nil
	}
}

// fieldAt is the path of the value that a decoder could not use, such as "manifests[2].policy", and an offset before which all that belongs
// to others ends. The decoder itself knows the names of the fields, but not which element of a list it was.
func fieldAt(document []byte, e *json.UnmarshalTypeError) (path string, at int64) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	path, at, found := walkTo(decoder, e.Offset)
	if !found || path == "" {
		return e.Field, at
	}
	return strings.TrimPrefix(path, "."), at
}

// walkTo reads one value and returns the path, below it, of the innermost value that begins before the offset and reaches it, and where what
// comes before that one ends.
func walkTo(decoder *json.Decoder, offset int64) (path string, at int64, found bool) {
	at = decoder.InputOffset()
	token, err := decoder.Token()
	if err != nil {
		return "", at, false
	}
	delim, composite := token.(json.Delim)
	if !composite || decoder.InputOffset() >= offset {
		return "", at, decoder.InputOffset() >= offset
	}
	for i := 0; decoder.More(); i++ {
		step := "[" + strconv.Itoa(i) + "]"
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return "", at, false
			}
			step = fmt.Sprintf(".%v", key)
		}
		if below, at, ok := walkTo(decoder, offset); ok {
			return step + below, at, true
		}
	}
	_, err = decoder.Token() // the closing delimiter
	return "", at, err == nil && decoder.InputOffset() >= offset
}

// replaceAt returns a document with another value in the place of the one that comes next after an offset.
func replaceAt(document []byte, at int64, value string) []byte {
	rest := bytes.TrimLeft(document[at:], " \t\r\n:,")
	var old json.RawMessage
	if json.NewDecoder(bytes.NewReader(rest)).Decode(&old) != nil {
		return document
	}
	return slices.Concat(document[:len(document)-len(rest)], []byte(value), rest[len(old):])
}

// empty is a value in JSON that a Go type can be read from, and that says nothing.
func empty(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "false"
	case reflect.String:
		return `""`
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64, reflect.Float32, reflect.Float64:
		return "0"
	case reflect.Slice, reflect.Array:
		return "[]"
	case reflect.Pointer:
		return empty(t.Elem())
	default:
		return "{}"
	}
}

// expectation is a Go type in the words of JSON.
func expectation(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Bool:
		return "true or false"
	case reflect.String:
		return "a text"
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number"
	case reflect.Float32, reflect.Float64:
		return "a number"
	case reflect.Slice, reflect.Array:
		return "a list"
	case reflect.Pointer:
		return expectation(t.Elem())
	default:
		return "an object"
	}
}

// article is what encoding/json calls a value, as part of a sentence.
func article(value string) string {
	kind, literal, _ := strings.Cut(value, " ")
	switch kind {
	case "string":
		return "a text"
	case "array":
		return "a list"
	case "object":
		return "an object"
	case "bool":
		return "true or false"
	case "number":
		if literal == "" {
			return "a number"
		}
		return "the number " + literal
	default:
		return value
	}
}
