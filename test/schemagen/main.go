// Command schemagen writes the published JSON schemas of the provider configurations from the Go types and their
// comments. It is run in the root of the repository; see `make generate`.
package main

import (
	"fmt"
	"os"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"
	"k8s.io/apimachinery/pkg/selection"

	containerv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	helmv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	manifestv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	manifestv1alpha2 "github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/schema"
)

// kind is that of all provider configurations.
const kind = manifestv1alpha2.ProviderConfigurationKind

// documents are the schemas by their files.
var documents = map[string][]schema.Version{
	"plugins/manifest/internal/config/providerconfiguration.schema.json": {
		{APIVersion: manifestv1alpha2.GroupVersion.String(), Kind: kind, Config: manifestv1alpha2.ProviderConfiguration{}},
		{APIVersion: manifestv1alpha1.GroupVersion.String(), Kind: kind, Config: manifestv1alpha1.ProviderConfiguration{}},
	},
	"plugins/helm/internal/config/providerconfiguration.schema.json": {
		{APIVersion: helmv1alpha1.GroupVersion.String(), Kind: kind, Config: helmv1alpha1.ProviderConfiguration{}},
	},
	"plugins/container/internal/config/providerconfiguration.schema.json": {
		{APIVersion: containerv1alpha1.GroupVersion.String(), Kind: kind, Config: containerv1alpha1.ProviderConfiguration{}},
	},
	"plugins/mock/providerconfiguration.schema.json": {
		{APIVersion: mockv1alpha1.GroupVersion, Kind: mockv1alpha1.Kind, Config: mockv1alpha1.ProviderConfiguration{}},
	},
}

func main() {
	g := schema.Generator{
		Module: "github.com/pergola-deploy/pergola", Dir: "./sdk/api", Special: special, Adapt: adapt,
	}
	for file, versions := range documents {
		if err := g.Write(file, versions...); err != nil {
			fmt.Fprintf(os.Stderr, "write %s: %v\n", file, err)
			os.Exit(1)
		}
	}
}

// anything are the fields of documents for any JSON.
var anything = []string{"importValues", "filesystem"}

// adapt lets some fields have any JSON, and the field exports of a provider configuration be the list itself.
func adapt(name string, definition *jsonschema.Schema) {
	for pair := definition.Properties.Oldest(); pair != nil; pair = pair.Next() {
		if slices.Contains(anything, pair.Key) {
			pair.Value.Type = ""
		}
	}
	if !strings.HasPrefix(name, kind) {
		return
	}
	exports, ok := definition.Properties.Get("exports")
	if !ok {
		return
	}
	definition.Properties.Set("exports", &jsonschema.Schema{
		Description: exports.Description,
		OneOf: []*jsonschema.Schema{
			{Ref: exports.Ref},
			{Type: "array", Items: &jsonschema.Schema{Ref: "#/$defs/Export"}},
		},
	})
}

// special returns the schema of a choice; nil for other types.
func special(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[managedresource.Policy]():
		return schema.Choice(managedresource.Policies())
	case reflect.TypeFor[managedresource.UpdateStrategy]():
		return schema.Choice(managedresource.UpdateStrategies())
	case reflect.TypeFor[managedresource.PredefinedResourceGroupType]():
		return schema.Choice([]managedresource.PredefinedResourceGroupType{
			managedresource.PredefinedNamespaced, managedresource.PredefinedClusterScoped,
			managedresource.PredefinedCRDs, managedresource.PredefinedEmpty,
		})
	case reflect.TypeFor[selection.Operator]():
		return schema.Choice([]selection.Operator{
			selection.DoesNotExist, selection.Exists, selection.Equals, selection.DoubleEquals, selection.NotEquals,
			selection.In, selection.NotIn,
		})
	default:
		return nil
	}
}
