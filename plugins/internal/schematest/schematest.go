// Package schematest compares the published JSON schemas of deployers with their Go types, and documents with the
// schemas.
package schematest

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// Schema is a published schema. It is safe for concurrent use.
type Schema struct {
	content  []byte
	compiled func() (*jsonschema.Schema, error)
}

// New returns the schema with a content. An invalid one fails the tests using it.
func New(content []byte) *Schema {
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

// Validate returns the violations of a schema by a document, in JSON or YAML; another format is an error as well.
func (s *Schema) Validate(t testing.TB, document []byte) error {
	t.Helper()
	schema, err := s.compiled()
	if err != nil {
		t.Fatal(err)
	}
	if !json.Valid(document) { // there is JSON that is no YAML
		if document, err = yaml.YAMLToJSON(document); err != nil {
			return err
		}
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

// MustHaveFields fails unless the schema has, object by object, the fields of a type with descriptions, and allows no
// others: an added field needs an addition to the schema, a removed one its removal. Types read by Kubernetes are
// open objects in the schema.
func (s *Schema) MustHaveFields(t testing.TB, of reflect.Type, open ...reflect.Type) {
	t.Helper()
	var schema map[string]any
	if err := json.Unmarshal(s.content, &schema); err != nil {
		t.Fatal(err)
	}
	published, types := map[string][]string{}, map[string][]string{}
	addProperties(t, published, "", schema)
	addFields(types, "", of, open)
	if diff := cmp.Diff(types, published); diff != "" {
		t.Errorf("fields by the objects that they are in: -types +schema:\n%s", diff)
	}
}

// addProperties adds the properties of a schema of an object, and of all objects in it, by their paths.
func addProperties(t testing.TB, all map[string][]string, path string, schema map[string]any) {
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
			t.Fatalf("%s.%s: expected a schema of an object's field, but found %v", path, name, properties[name])
		}
		if path+name != "apiVersion" && path+name != "kind" && property["description"] == nil {
			t.Errorf("%s.%s: the schema does not say what it is", path, name)
		}
		addProperties(t, all, path+"."+name, property)
	}
}

// addFields does the same with a type.
func addFields(all map[string][]string, path string, of reflect.Type, open []reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || slices.Contains(open, of) {
		return
	}
	for name, field := range fieldsOf(of) {
		all[path] = append(all[path], name)
		addFields(all, path+"."+name, field, open)
	}
	slices.Sort(all[path])
}

// MustDefine fails unless the definitions of the schema, without other fields, are exactly those of the roots and the
// types within them. The name of a definition is that of its type, with the suffix of a root: roots may be versions
// with the same name.
func (s *Schema) MustDefine(t testing.TB, roots map[reflect.Type]string) {
	t.Helper()
	var schema struct {
		Defs map[string]struct {
			Properties           map[string]any `json:"properties"`
			AdditionalProperties any            `json:"additionalProperties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(s.content, &schema); err != nil {
		t.Fatal(err)
	}
	types, published := map[string][]string{}, map[string][]string{}
	for of, suffix := range roots {
		addDefinitions(types, of, suffix)
	}
	for name, definition := range schema.Defs {
		published[name] = slices.Sorted(maps.Keys(definition.Properties))
		if definition.AdditionalProperties != false {
			t.Errorf("%s: the schema allows unknown fields", name)
		}
	}
	if diff := cmp.Diff(types, published); diff != "" {
		t.Errorf("fields: -types +schema (run make generate):\n%s", diff)
	}
}

// addDefinitions adds the names of the fields of a struct in JSON, and those of all structs in it.
func addDefinitions(all map[string][]string, of reflect.Type, suffix string) {
	switch {
	case of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice:
		addDefinitions(all, of.Elem(), "")
		return
	case of.Kind() != reflect.Struct || of == reflect.TypeFor[runtime.RawExtension]() || all[of.Name()+suffix] != nil:
		return
	}
	fields := fieldsOf(of)
	all[of.Name()+suffix] = slices.Sorted(maps.Keys(fields))
	for _, field := range fields {
		addDefinitions(all, field, "")
	}
}

// fieldsOf returns the types of the fields of a struct by their names in JSON.
func fieldsOf(of reflect.Type) map[string]reflect.Type {
	fields := map[string]reflect.Type{}
	for _, f := range reflect.VisibleFields(of) {
		if !f.Anonymous {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			fields[name] = f.Type
		}
	}
	return fields
}
