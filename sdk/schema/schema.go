// Package schema writes the JSON schema of a configuration from its Go types and their comments, for sdk.ConfigSchema
// and sdk.ProviderConfigSchema. It is for a program that `go generate` runs in the root of a module, so that its
// library is not in the plugin:
//
//	func main() {
//		g := schema.Generator{Module: "example.org/dns", Dir: "./api"}
//		err := g.Write("zone.schema.json",
//			schema.Version{APIVersion: "dns.example.org/v1", Kind: "Zone", Config: api.Zone{}})
//		…
//	}
//
// A field without omitempty is required. The types are in packages of their own: no program can import those of a
// package main.
package schema

import (
	"encoding"
	"encoding/json"
	"fmt"
	"os"
	"path"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// Generator describes where the types are, and how some differ from their Go form.
type Generator struct {
	// Module is the path of the module, such as "example.org/dns".
	Module string
	// Dir has the packages of the types, relative to the root of the module, such as "./api".
	Dir string
	// Special returns the schema of a type if its Go form does not determine its JSON; nil for others. Nil for no such
	// types. Types that read a text, amounts and raw JSON objects are known.
	Special func(reflect.Type) *jsonschema.Schema
	// Adapt changes the schema of a type, by its name in the document; nil for no changes.
	Adapt func(name string, definition *jsonschema.Schema)
}

// Version is a configuration in one version of its API.
type Version struct {
	// APIVersion and Kind are required in the document.
	APIVersion, Kind string
	// Config is a value of the type.
	Config any
}

// Write writes the schema of a document in any of the versions to a file.
func (g Generator) Write(file string, versions ...Version) error {
	schema, err := g.Schema(versions...)
	if err != nil {
		return err
	}
	return os.WriteFile(file, schema, 0o644)
}

// Schema returns the schema of a document in any of the versions, as indented JSON.
func (g Generator) Schema(versions ...Version) ([]byte, error) {
	out := &jsonschema.Schema{Version: jsonschema.Version, Definitions: jsonschema.Definitions{}}
	names := namer{names: map[reflect.Type]string{}, types: map[string]reflect.Type{}}
	for _, v := range versions { // before the types in them
		root := reflect.TypeOf(v.Config)
		names.choose(root, root.Name()+"-"+path.Base(root.PkgPath()))
	}
	for _, v := range versions {
		reflector := &jsonschema.Reflector{Anonymous: true, Mapper: g.special, Namer: names.of}
		if err := reflector.AddGoComments(g.Module, g.Dir, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read comments: %w", err)
		}
		schema := reflector.Reflect(v.Config)
		for name, definition := range schema.Definitions {
			definition.Description = plain(definition.Description)
			for pair := definition.Properties.Oldest(); pair != nil; pair = pair.Next() {
				pair.Value.Description = plain(pair.Value.Description)
			}
			if g.Adapt != nil {
				g.Adapt(name, definition)
			}
			out.Definitions[name] = definition
		}
		root := schema.Definitions[names.of(reflect.TypeOf(v.Config))]
		require(root, "apiVersion", v.APIVersion)
		require(root, "kind", v.Kind)
		out.OneOf = append(out.OneOf, &jsonschema.Schema{Ref: schema.Ref})
	}
	document, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write the schema: %w", err)
	}
	return append(document, '\n'), nil
}

// namer names types in a document. It tells types of one name apart by their packages.
type namer struct {
	names map[reflect.Type]string
	types map[string]reflect.Type
}

func (n namer) of(t reflect.Type) string {
	if t.Name() == "" {
		return ""
	}
	return n.choose(t, t.Name())
}

// choose returns the name of a type, or gives it one: the wanted one if it is free.
func (n namer) choose(t reflect.Type, wanted string) string {
	if name, ok := n.names[t]; ok {
		return name
	}
	name := wanted
	if n.types[name] != nil {
		name = t.Name() + "-" + path.Base(t.PkgPath())
	}
	if n.types[name] != nil {
		name = t.Name() + "-" + strings.ReplaceAll(t.PkgPath(), "/", "-")
	}
	n.names[t], n.types[name] = name, t
	return name
}

// require requires one value of a field.
func require(root *jsonschema.Schema, name, value string) {
	root.Properties.Set(name, &jsonschema.Schema{Const: value})
	if !slices.Contains(root.Required, name) {
		root.Required = append(root.Required, name)
	}
}

// Choice returns the schema of a text with one of the values.
func Choice[T ~string](values []T) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		schema.Enum = append(schema.Enum, string(v))
	}
	return schema
}

func (g Generator) special(t reflect.Type) *jsonschema.Schema {
	if g.Special != nil {
		if schema := g.Special(t); schema != nil {
			return schema
		}
	}
	switch t {
	case reflect.TypeFor[time.Time]():
		return nil // the library knows it
	case reflect.TypeFor[resource.Quantity]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}}}
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[metav1.Duration]():
		return &jsonschema.Schema{Type: "string"}
	}
	if reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()) {
		return &jsonschema.Schema{Type: "string"}
	}
	return nil
}

// plain makes one line of a comment.
func plain(comment string) string { return strings.Join(strings.Fields(comment), " ") }
