package configtest

import (
	"bytes"
	"encoding"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
)

// Schema is a published JSON schema. It is safe for concurrent use.
type Schema struct {
	content  []byte
	compiled func() (*jsonschema.Schema, error)
}

// NewSchema returns the schema with a content. An invalid one fails the tests using it.
func NewSchema(content []byte) *Schema {
	return &Schema{content: content, compiled: sync.OnceValues(func() (*jsonschema.Schema, error) {
		document, err := jsonschema.UnmarshalJSON(bytes.NewReader(content))
		if err != nil {
			return nil, err
		}
		compiler := jsonschema.NewCompiler()
		if err := compiler.AddResource("schema.json", document); err != nil {
			return nil, err
		}
		return compiler.Compile("schema.json")
	})}
}

// Validate returns the violations of a schema by a JSON document.
func (s *Schema) Validate(t testing.TB, document []byte) error {
	t.Helper()
	schema, err := s.compiled()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

// mustHaveFields fails unless the schema, written by hand, has the fields of a type object by object, each with a
// description, and allows no others. Types in open are objects of any content.
func (s *Schema) mustHaveFields(t *testing.T, of reflect.Type, open []reflect.Type) {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(s.content, &schema); err != nil {
		t.Fatal(err)
	}
	published, types := map[string][]string{}, map[string][]string{}
	addProperties(t, published, "", schema)
	addFields(types, "", of, open)
	if diff := cmp.Diff(types, published); diff != "" {
		t.Errorf("fields by their objects: -types +schema:\n%s", diff)
	}
}

// addProperties adds the properties of a schema of an object, and of all objects in it, by their paths.
func addProperties(t *testing.T, all map[string][]string, path string, schema map[string]any) {
	t.Helper()
	if items, ok := schema["items"].(map[string]any); ok {
		schema = items
	}
	properties, ok := schema["properties"].(map[string]any)
	if !ok {
		return
	}
	if schema["additionalProperties"] != false {
		t.Errorf("%q: the schema allows unknown fields", path)
	}
	all[path] = slices.Sorted(maps.Keys(properties))
	for name, property := range properties {
		property, ok := property.(map[string]any)
		if !ok {
			t.Fatalf("%s.%s: expected the schema of a field, but found %v", path, name, properties[name])
		}
		if path+name != "apiVersion" && path+name != "kind" && property["description"] == nil {
			t.Errorf("%s.%s: the schema has no description", path, name)
		}
		addProperties(t, all, path+"."+name, property)
	}
}

// addFields does the same with a type.
func addFields(all map[string][]string, path string, of reflect.Type, open []reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	isText := reflect.PointerTo(of).Implements(reflect.TypeFor[encoding.TextUnmarshaler]())
	if of.Kind() != reflect.Struct || isText || slices.Contains(open, of) {
		return
	}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[path] = append(all[path], name)
		addFields(all, path+"."+name, f.Type, open)
	}
	slices.Sort(all[path])
}
