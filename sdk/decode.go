package sdk

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
)

// decodeStrict reads JSON into a struct. Every unknown or duplicate field is reported at once; a value of the wrong type is
// reported alone, because decoding ends there.
func decodeStrict(document []byte, into any) error {
	strictErrs, err := kjson.UnmarshalStrict(document, into)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) {
		text := fmt.Sprintf("expected %s, but found %s", expectation(wrongType.Type), article(wrongType.Value))
		if field := fieldAt(document, wrongType); field != "" {
			text = field + ": " + text
		}
		return errors.New(text)
	}
	if err != nil {
		return err
	}
	if len(strictErrs) == 0 {
		return nil
	}
	texts := make([]string, 0, len(strictErrs))
	for _, strictErr := range strictErrs {
		texts = append(texts, strictErr.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}

// fieldAt is the path of the value that a decoder could not use, such as "manifests[2].policy". The decoder itself knows the
// names of the fields, but not which element of a list it was.
func fieldAt(document []byte, e *json.UnmarshalTypeError) string {
	decoder := json.NewDecoder(bytes.NewReader(document))
	path, found := walkTo(decoder, e.Offset)
	if !found || path == "" {
		return e.Field
	}
	return strings.TrimPrefix(path, ".")
}

// walkTo reads one value and returns the path, below it, of the innermost value that begins before the offset and reaches it.
func walkTo(decoder *json.Decoder, offset int64) (path string, found bool) {
	token, err := decoder.Token()
	if err != nil {
		return "", false
	}
	delim, composite := token.(json.Delim)
	if !composite || decoder.InputOffset() >= offset {
		return "", decoder.InputOffset() >= offset
	}
	for i := 0; decoder.More(); i++ {
		step := "[" + strconv.Itoa(i) + "]"
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return "", false
			}
			step = fmt.Sprintf(".%v", key)
		}
		if below, ok := walkTo(decoder, offset); ok {
			return step + below, true
		}
	}
	_, err = decoder.Token() // the closing delimiter
	return "", err == nil && decoder.InputOffset() >= offset
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
		return strings.TrimSpace("the number " + literal)
	default:
		return value
	}
}
