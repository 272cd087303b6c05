// Command schemagen writes the published JSON schemas of the provider configurations from the Go types and their
// comments. It is run in the root of the repository; see `make generate`.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/selection"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	manifestv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	manifestv1alpha2 "github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

const (
	module = "github.com/pergola-deploy/pergola"
	// kind is that of all provider configurations.
	kind = manifestv1alpha2.ProviderConfigurationKind
)

// version is a provider configuration in one version of its API.
type version struct {
	apiVersion, kind string
	config           any
}

// documents are the schemas by their files.
var documents = map[string][]version{
	"plugins/manifest/internal/config/providerconfiguration.schema.json": {
		{manifestv1alpha2.GroupVersion.String(), kind, manifestv1alpha2.ProviderConfiguration{}},
		{manifestv1alpha1.GroupVersion.String(), kind, manifestv1alpha1.ProviderConfiguration{}},
	},
	"plugins/helm/internal/config/providerconfiguration.schema.json": {
		{helmv1alpha1.GroupVersion.String(), kind, helmv1alpha1.ProviderConfiguration{}},
	},
	"plugins/container/internal/config/providerconfiguration.schema.json": {
		{containerv1alpha1.GroupVersion.String(), kind, containerv1alpha1.ProviderConfiguration{}},
	},
	"plugins/mock/providerconfiguration.schema.json": {
		{mockv1alpha1.GroupVersion, mockv1alpha1.Kind, mockv1alpha1.ProviderConfiguration{}},
	},
}

func main() {
	for file, versions := range documents {
		if err := write(file, versions); err != nil {
			fmt.Fprintf(os.Stderr, "write %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

func write(file string, versions []version) error {
	schema, err := schemaOf(versions)
	if err != nil {
		return err
	}
	document, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(document, '\n'), 0o644)
}

// schemaOf returns the schema of a document in any of the versions.
func schemaOf(versions []version) (*jsonschema.Schema, error) {
	out := &jsonschema.Schema{Version: jsonschema.Version, Definitions: jsonschema.Definitions{}}
	for _, v := range versions {
		reflector := &jsonschema.Reflector{Anonymous: true, Mapper: special, Namer: nameOf}
		if err := reflector.AddGoComments(module, "./sdk/api", jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("read comments: %w", err)
		}
		schema := reflector.Reflect(v.config)
		for name, definition := range schema.Definitions {
			definition.Description = plain(definition.Description)
			for pair := definition.Properties.Oldest(); pair != nil; pair = pair.Next() {
				pair.Value.Description = plain(pair.Value.Description)
				if slices.Contains(anything, pair.Key) {
					pair.Value.Type = ""
				}
			}
			out.Definitions[name] = definition
		}
		root := schema.Definitions[nameOf(reflect.TypeOf(v.config))]
		root.Required = append(root.Required, "apiVersion", "kind")
		fix(root, "apiVersion", v.apiVersion)
		fix(root, "kind", v.kind)
		allowList(root)
		out.OneOf = append(out.OneOf, &jsonschema.Schema{Ref: schema.Ref})
	}
	return out, nil
}

// anything are the fields of documents for any JSON.
var anything = []string{"importValues", "filesystem"}

// plain makes one line of a comment.
func plain(comment string) string { return strings.Join(strings.Fields(comment), " ") }

// fix restricts a field to one value.
func fix(schema *jsonschema.Schema, name, value string) {
	schema.Properties.Set(name, &jsonschema.Schema{Const: value})
}

// allowList lets the field exports be the list itself.
func allowList(schema *jsonschema.Schema) {
	exports, ok := schema.Properties.Get("exports")
	if !ok {
		return
	}
	schema.Properties.Set("exports", &jsonschema.Schema{
		Description: exports.Description,
		OneOf: []*jsonschema.Schema{
			{Ref: exports.Ref},
			{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/Export"}},
		},
	})
}

// nameOf names a definition. Types of the same name in several versions are told apart by their packages.
func nameOf(t reflect.Type) string {
	if t.Name() == "ProviderConfiguration" {
		parts := strings.Split(t.PkgPath(), "/")
		return t.Name() + "-" + parts[len(parts)-1]
	}
	return t.Name()
}

// special returns the schema of a type if its Go form does not determine its JSON; nil for others.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[managedresource.Policy]():
		return choice(managedresource.Policies())
	case reflect.TypeFor[managedresource.UpdateStrategy]():
		return choice(managedresource.UpdateStrategies())
	case reflect.TypeFor[managedresource.PredefinedResourceGroupType]():
		return choice([]managedresource.PredefinedResourceGroupType{
			managedresource.PredefinedNamespaced, managedresource.PredefinedClusterScoped,
			managedresource.PredefinedCRDs, managedresource.PredefinedEmpty,
		})
	case reflect.TypeFor[selection.Operator]():
		return choice([]selection.Operator{
			selection.DoesNotExist, selection.Exists, selection.Equals, selection.DoubleEquals, selection.NotEquals,
			selection.In, selection.NotIn,
		})
	case reflect.TypeFor[resource.Quantity]():
		return &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "string"}, {Type: "number"}}}
	case reflect.TypeFor[runtime.RawExtension](), reflect.TypeFor[json.RawMessage]():
		return &jsonschema.Schema{Type: "object"}
	default:
		return nil
	}
}

func choice[T ~string](values []T) *jsonschema.Schema {
	schema := &jsonschema.Schema{Type: "string"}
	for _, v := range values {
		schema.Enum = append(schema.Enum, string(v))
	}
	return schema
}
