package document

import (
	"bytes"
	"encoding"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"
)

// GroupVersionKind returns apiVersion and kind; empty if the document cannot be read.
func GroupVersionKind(document []byte) (apiVersion, kind string) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		return "", ""
	}
	return meta.APIVersion, meta.Kind
}

// numbers reads a document without a loss of digits.
func numbers(document []byte) (value any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.UseNumber()
	err = decoder.Decode(&value)
	return value, err
}

// Problem is one value of a wrong type.
type Problem struct {
	// Field is the path of the field.
	Field string
	// Expected is the type in the words of JSON.
	Expected string
	// Rest of the message names the found value.
	Rest string
}

// Message says what is expected, and what was found.
func (p Problem) Message() string { return "expected " + p.Expected + p.Rest }

// Unread is one field that is unknown or there twice.
type Unread struct {
	// Field is the path of the field.
	Field string
	// Kind is "unknown field" or "duplicate field", Hint what may be meant.
	Kind, Hint string
}

// Message is for a text that names the field before it.
func (u Unread) Message() string { return u.Kind + u.Hint }

// Text names the field after what is wrong with it.
func (u Unread) Text() string { return u.Kind + " " + strconv.Quote(u.Field) + u.Hint }

// maxWrong bounds how many values of a wrong type are reported: the document is decoded once more after each.
const maxWrong = 20

// DecodeText is Decode for YAML or JSON. The error about a text that is neither may quote it.
func DecodeText(text []byte, into any) (unknown []Unread, wrong []Problem, err error) {
	if json.Valid(text) { // which costs less than YAML
		return Decode(text, into)
	}
	document, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		return nil, nil, fmt.Errorf("expected YAML or JSON: %w", err)
	}
	return Decode(document, into)
}

// DecodeSecret is DecodeText for a text with credentials: it returns texts about the problems, without a value.
func DecodeSecret(text []byte, into any, ignoreUnknown bool) (problems []string) {
	unknown, wrong, err := DecodeText(text, into)
	if err != nil { // its text may quote a value
		problems = append(problems, "expected YAML or JSON with each field once and valid values")
	}
	for _, p := range wrong {
		problems = append(problems, strings.TrimPrefix(p.Field+": expected "+p.Expected, ": "))
	}
	for _, u := range unknown {
		if !ignoreUnknown {
			problems = append(problems, u.Text())
		}
	}
	return problems
}

// Decode reads JSON into a struct. It returns every unknown or duplicate field, and every value of a wrong type. Such a
// value is read as the empty value of the expected type.
func Decode(document []byte, into any) (unknown []Unread, wrong []Problem, err error) {
	for {
		strictErrs, err := kjson.UnmarshalStrict(document, into)
		if err != nil {
			found, offset, empty, ok := locate(document, reflect.TypeOf(into), err)
			seen := slices.ContainsFunc(wrong, func(p Problem) bool { return p.Field == found.Field })
			switch {
			case !ok && len(wrong) == 0:
				return nil, nil, err
			case !ok || seen || len(wrong) == maxWrong:
				return nil, wrong, nil
			}
			wrong = append(wrong, found)
			document = replaceAt(document, offset, empty)
			continue
		}
		for _, strictErr := range strictErrs {
			if wrong := kjson.FieldError(nil); errors.As(strictErr, &wrong) { // as all of them are
				kind, _, _ := strings.Cut(strictErr.Error(), ` "`) // and then the path
				path := wrong.FieldPath()
				unknown = append(unknown, Unread{Field: path, Kind: kind, Hint: DidYouMean(reflect.TypeOf(into), path)})
			}
		}
		return unknown, wrong, nil
	}
}

// locate finds the value that an error of the decoder is about. offset is the end of the token before it, empty the
// JSON for its place.
func locate(document []byte, t reflect.Type, err error) (found Problem, offset int64, empty string, ok bool) {
	var wrongType *json.UnmarshalTypeError
	if !json.Valid(document) {
		return Problem{}, 0, "", false
	}
	path, offset, refusal := refused(json.NewDecoder(bytes.NewReader(document)), t)
	if refusal != nil { // a wrong type in it has an offset of its own
		found, empty = Problem{Expected: "a valid value", Rest: ": " + refusal.Error()}, "null"
		err, found.Field = refusal, strings.TrimPrefix(path, ".")
	}
	if errors.As(err, &wrongType) {
		if refusal == nil {
			found.Field, offset = fieldAt(document, wrongType)
			_, empty = inJSON(wrongType.Type)
		}
		found.Expected, _ = inJSON(wrongType.Type)
		found.Rest = ", but found " + withArticle(wrongType.Value)
	}
	return found, offset, empty, found.Expected != ""
}

// refused reads one value of a type. It returns the path, below it, of the first value refused by its own Go type, such
// as a time in a text, and the end of the token before that value.
func refused(decoder *json.Decoder, t reflect.Type) (path string, offset int64, refusal error) {
	for t.Kind() == reflect.Pointer && !readsItself(t) {
		t = t.Elem()
	}
	offset = decoder.InputOffset()
	if readsItself(t) || readsText(t) {
		var raw json.RawMessage
		_ = decoder.Decode(&raw) // the document is valid
		if raw[0] == '"' || readsItself(t) {
			refusal = json.Unmarshal(raw, reflect.New(t).Interface())
		}
		return "", offset, refusal
	}
	token, _ := decoder.Token()
	delim, composite := token.(json.Delim)
	for i := 0; composite && decoder.More(); i++ {
		step, below := "["+strconv.Itoa(i)+"]", ""
		if delim == '{' {
			token, _ := decoder.Token()
			below = fmt.Sprint(token)
			step = "." + below
		}
		if path, offset, err := refused(decoder, partOf(t, below)); err != nil {
			return step + path, offset, err
		}
	}
	if composite {
		_, _ = decoder.Token() // the closing delimiter
	}
	return "", offset, nil
}

// partOf returns the type of a field or an entry; any for an unknown one.
func partOf(t reflect.Type, name string) reflect.Type {
	switch t.Kind() {
	case reflect.Map, reflect.Slice, reflect.Array:
		return t.Elem()
	case reflect.Struct:
		if field, ok := fieldsOf(t)[name]; ok {
			return field
		}
	default:
	}
	return reflect.TypeFor[any]()
}

// fieldAt returns the path of a value of a wrong type, such as "manifests[2].policy", and the end of the token before
// it. The decoder itself knows the names of the fields, but not the indexes of lists.
func fieldAt(document []byte, e *json.UnmarshalTypeError) (path string, offset int64) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	path, offset, found := walkTo(decoder, e.Offset)
	if !found || path == "" {
		return e.Field, offset
	}
	return strings.TrimPrefix(path, "."), offset
}

// walkTo reads one value. It returns the path, below it, of the innermost value around the position end, and the end of
// the token before that value.
func walkTo(decoder *json.Decoder, end int64) (path string, offset int64, found bool) {
	offset = decoder.InputOffset()
	token, err := decoder.Token()
	if err != nil {
		return "", offset, false
	}
	delim, composite := token.(json.Delim)
	if !composite || decoder.InputOffset() >= end {
		return "", offset, decoder.InputOffset() >= end
	}
	for i := 0; decoder.More(); i++ {
		step := "[" + strconv.Itoa(i) + "]"
		if delim == '{' {
			key, err := decoder.Token()
			if err != nil {
				return "", offset, false
			}
			step = fmt.Sprintf(".%v", key)
		}
		if below, offset, ok := walkTo(decoder, end); ok {
			return step + below, offset, true
		}
	}
	_, err = decoder.Token() // the closing delimiter
	return "", offset, err == nil && decoder.InputOffset() >= end
}

// replaceAt replaces the next value after an offset.
func replaceAt(document []byte, offset int64, value string) []byte {
	rest := bytes.TrimLeft(document[offset:], " \t\r\n:,")
	var old json.RawMessage
	if json.NewDecoder(bytes.NewReader(rest)).Decode(&old) != nil {
		return document
	}
	return slices.Concat(document[:len(document)-len(rest)], []byte(value), rest[len(old):])
}

func readsText(t reflect.Type) bool {
	return reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
}

// inJSON names a Go type in the words of JSON, and returns the JSON of an empty value of it.
func inJSON(t reflect.Type) (name, empty string) {
	if readsText(t) {
		return "a text", `""`
	}
	switch t.Kind() {
	case reflect.Bool:
		return "true or false", "false"
	case reflect.String:
		return "a text", `""`
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64:
		return "a whole number", "0"
	case reflect.Float32, reflect.Float64:
		return "a number", "0"
	case reflect.Slice, reflect.Array:
		return "a list", "[]"
	case reflect.Pointer:
		return inJSON(t.Elem())
	default:
		return "an object", "{}"
	}
}

// withArticle turns encoding/json's name for a value into words of a sentence.
func withArticle(value string) string {
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
