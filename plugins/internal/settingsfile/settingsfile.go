// Package settingsfile reads the configuration documents of plugins, written by operators, and their common parts.
package settingsfile

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kjson "sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk"
)

// Problems are those of a document, in the order of their discovery. The zero value has none.
type Problems []sdk.Problem

// Add adds a problem. field is its path in the document, empty for the document itself; the format is that of
// fmt.Sprintf.
func (p *Problems) Add(field, format string, args ...any) {
	*p = append(*p, sdk.Problem{Field: field, Message: fmt.Sprintf(format, args...)})
}

// Decode reads a document, YAML or JSON, into a struct. Unknown fields are reported all at once, and all others are
// read all the same. ok is false for an unreadable document, or for one with a value of the wrong type, reported
// alone; into is useless then.
func Decode(document []byte, into any) (problems Problems, ok bool) {
	content, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		problems.Add("", "expected YAML or JSON: %v", err)
		return problems, false
	}
	unknown, err := kjson.UnmarshalStrict(content, into)
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &wrongType):
		problems.Add(wrongType.Field, "expected %s, but found %s", expectation(wrongType.Type), wrongType.Value)
		return problems, false
	case err != nil:
		problems.Add("", "%v", err)
		return problems, false
	}
	for _, field := range unknown {
		problems.Add("", "%v", field)
	}
	return problems, true
}

// expectation is a Go type in the words of JSON.
func expectation(t reflect.Type) string {
	switch t.Kind() {
	case reflect.Struct:
		return "an object"
	case reflect.Slice:
		return "a list"
	default:
		return t.String()
	}
}

// CheckKind reports a document of another apiVersion or kind.
func (p *Problems) CheckKind(found metav1.TypeMeta, apiVersion, kind string) {
	if found.APIVersion != apiVersion {
		p.Add("apiVersion", "expected %s, but found %q", apiVersion, found.APIVersion)
	}
	if found.Kind != kind {
		p.Add("kind", "expected %s, but found %q", kind, found.Kind)
	}
}
