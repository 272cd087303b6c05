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

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
)

// DecodeConfig reads the provider configuration into a struct, strictly: an unknown field, a duplicate one, a wrong
// type and a missing configuration are errors, each with the path of its field, in an *Error with the code
// ERR_CONFIGURATION_PROBLEM. All of them are reported at once.
func (r *Request) DecodeConfig(into any) error {
	unknown, wrong, err := r.DecodeConfigPartly(into)
	if err != nil {
		return err
	}
	return misread(wrong, unknown)
}

// DecodeConfigLeniently is DecodeConfig for a deployer whose users come from one that ignores what it does not know:
// unknown and duplicate fields are no error. They are returned as texts that name the field with its path, such as
// `unknown field "manifest"`, for a warning.
func (r *Request) DecodeConfigLeniently(into any) (unknown []string, err error) {
	unknown, wrong, err := r.DecodeConfigPartly(into)
	if err == nil {
		err = misread(wrong, nil)
	}
	if err != nil {
		return nil, err
	}
	return unknown, nil
}

// DecodeConfigPartly is DecodeConfigLeniently for a deployer that checks more than types, and reports everything at
// once: values of a wrong type are no error either. They are returned, and the struct has all others, and empty
// values in their places.
func (r *Request) DecodeConfigPartly(into any) (unknown []string, wrong []Problem, err error) {
	if r.DeployItem.Spec.Config == nil || len(r.DeployItem.Spec.Config.Raw) == 0 {
		err := errors.New("spec.config: the provider configuration is missing")
		return nil, nil, configError(ReasonConfigMissing, err)
	}
	unknown, wrong, err = decode(r.DeployItem.Spec.Config.Raw, into)
	if err != nil {
		return nil, nil, configError(ReasonConfigInvalid, fmt.Errorf("spec.config: %w", err))
	}
	return unknown, wrong, nil
}

// ConfigGroupVersionKind returns apiVersion and kind of the provider configuration; both are empty if it is missing
// or cannot be read.
func (r *Request) ConfigGroupVersionKind() (apiVersion, kind string) {
	if r.DeployItem.Spec.Config == nil {
		return "", ""
	}
	return groupVersionKind(r.DeployItem.Spec.Config.Raw)
}

func groupVersionKind(document []byte) (apiVersion, kind string) {
	var meta struct {
		APIVersion string `json:"apiVersion"`
		Kind       string `json:"kind"`
	}
	if err := json.Unmarshal(document, &meta); err != nil {
		return "", ""
	}
	return meta.APIVersion, meta.Kind
}

// misread is the error about a configuration of which some cannot be read; nil if there is nothing to say.
func misread(wrong []Problem, unknown []string) error {
	if len(wrong)+len(unknown) == 0 {
		return nil
	}
	texts := make([]string, 0, len(wrong)+len(unknown))
	for _, p := range wrong {
		texts = append(texts, strings.TrimPrefix(p.Field+": "+p.Message, ": "))
	}
	return configError(ReasonConfigInvalid, errors.New("spec.config: "+strings.Join(append(texts, unknown...), "; ")))
}

func configError(reason string, err error) error {
	return &Error{
		Codes:     []v1alpha1.ErrorCode{v1alpha1.ErrorConfigurationProblem},
		Operation: "DecodeConfig",
		Reason:    reason,
		Err:       err,
	}
}

// maxWrong bounds how many values of a wrong type are reported: the document is decoded once more after each.
const maxWrong = 20

// decode reads JSON into a struct. It returns every unknown or duplicate field, and every value of the wrong type.
// Such a value is read as the empty one of the type that is expected: that it is there is true, and what it says
// nobody knows.
func decode(document []byte, into any) (unknown []string, wrong []Problem, err error) {
	for {
		strictErrs, err := kjson.UnmarshalStrict(document, into)
		var wrongType *json.UnmarshalTypeError
		switch {
		case errors.As(err, &wrongType):
			field, offset := fieldAt(document, wrongType)
			seen := slices.ContainsFunc(wrong, func(p Problem) bool { return p.Field == field })
			if seen || len(wrong) == maxWrong {
				return nil, wrong, nil
			}
			expected, empty := inJSON(wrongType.Type)
			message := fmt.Sprintf("expected %s, but found %s", expected, withArticle(wrongType.Value))
			wrong = append(wrong, Problem{Field: field, Message: message})
			document = replaceAt(document, offset, empty)
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

// fieldAt is the path of the value that a decoder could not use, such as "manifests[2].policy", and an offset before
// which all that belongs to others ends. The decoder itself knows the names of the fields, but not which element of a
// list it was.
func fieldAt(document []byte, e *json.UnmarshalTypeError) (path string, offset int64) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	path, offset, found := walkTo(decoder, e.Offset)
	if !found || path == "" {
		return e.Field, offset
	}
	return strings.TrimPrefix(path, "."), offset
}

// walkTo reads one value and returns the path, below it, of the innermost value that begins before the end and
// reaches it, and where what comes before that one ends.
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

// replaceAt returns a document with another value in the place of the one that comes next after an offset.
func replaceAt(document []byte, offset int64, value string) []byte {
	rest := bytes.TrimLeft(document[offset:], " \t\r\n:,")
	var old json.RawMessage
	if json.NewDecoder(bytes.NewReader(rest)).Decode(&old) != nil {
		return document
	}
	return slices.Concat(document[:len(document)-len(rest)], []byte(value), rest[len(old):])
}

// inJSON names a Go type in the words of JSON, and returns the JSON of an empty value of it.
func inJSON(t reflect.Type) (name, empty string) {
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

// withArticle is what encoding/json calls a value, as part of a sentence.
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
