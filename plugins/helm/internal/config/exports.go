package config

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
	kjson "sigs.k8s.io/json"

	"github.com/pergola-deploy/pergola/plugins/internal/export"
	"github.com/pergola-deploy/pergola/plugins/internal/jsonpath"
	"github.com/pergola-deploy/pergola/sdk"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
)

// ValueExport is an exported value of those for rendering the chart.
type ValueExport struct {
	// Key of the exported value. Dots make nested maps.
	Key string
	// Path of the value in an object; its only field, Values, has the values.
	Path jsonpath.Path
}

// setExports sets the exports. listed is the place of the list in the field exports.
func (c *Config) setExports(document *v1alpha1.ProviderConfiguration, listed *field.Path) field.ErrorList {
	problems := c.addExports(document.Exports, listed)
	keys := c.exportKeys()
	path := field.NewPath("exportsFromManifests")
	problems = append(problems, c.addExports(&managedresource.Exports{Exports: document.ExportsFromManifests}, path)...)
	for i, e := range document.ExportsFromManifests {
		for _, key := range keys {
			if e.Key != "" && export.Overlap(key, e.Key) {
				problems = append(problems, field.Invalid(path.Index(i).Child("key"), e.Key,
					fmt.Sprintf("cannot be exported beside %q of exports", key)))
			}
		}
	}
	return problems
}

// addExports adds the exports of a list. An export without an object is read from the values.
func (c *Config) addExports(exports *managedresource.Exports, path *field.Path) field.ErrorList {
	if exports == nil {
		return nil
	}
	// The rules for keys and paths are the same for all. For the check, an export of a value gets an object.
	whole := *exports
	whole.Exports = make([]managedresource.Export, 0, len(exports.Exports))
	var problems field.ErrorList
	for i, e := range exports.Exports {
		if e.FromResource == nil {
			problems = append(problems, checkValueExport(e, path.Index(i))...)
			e.FromObjectReference = nil
			e.FromResource = &managedresource.TypedObjectReference{APIVersion: "v1", Kind: "Values", Name: "values"}
		}
		whole.Exports = append(whole.Exports, e)
	}
	values, p := export.Parse(&whole, path)
	for i, v := range values {
		if exports.Exports[i].FromResource == nil {
			c.ValueExports = append(c.ValueExports, ValueExport{Key: v.Key, Path: v.Path})
			continue
		}
		c.Exports = append(c.Exports, v)
	}
	return append(problems, p...)
}

// checkValueExport refuses options for objects: with them another value than the wanted one would be exported.
func checkValueExport(e managedresource.Export, path *field.Path) field.ErrorList {
	var problems field.ErrorList
	const why = "needs fromResource; without it the value is one of the chart's values"
	if e.FromObjectReference != nil {
		problems = append(problems, field.Forbidden(path.Child("fromObjectRef"), why))
	}
	if e.TargetName != nil {
		problems = append(problems, field.Forbidden(path.Child("targetName"), why))
	}
	return problems
}

func (c *Config) exportKeys() []string {
	keys := make([]string, 0, len(c.Exports)+len(c.ValueExports))
	for _, e := range c.Exports {
		keys = append(keys, e.Key)
	}
	for _, e := range c.ValueExports {
		keys = append(keys, e.Key)
	}
	return keys
}

// ReasonExportMissing is the reason of the error about a value missing from the chart's values. A retry would not
// find it either.
const ReasonExportMissing = "ExportMissing"

// ExportValues returns exports with values of the chart added, read from a JSON object. exports is not changed. One
// error names all missing values; it repeats no value.
func ExportValues(wanted []ValueExport, values json.RawMessage, exports map[string]any) (map[string]any, error) {
	if len(wanted) == 0 {
		return exports, nil
	}
	var of map[string]any
	if len(values) > 0 {
		if err := kjson.UnmarshalCaseSensitivePreserveInts(values, &of); err != nil {
			return nil, fmt.Errorf("read the values of the chart: %w", err)
		}
	}
	all := maps.Clone(exports)
	if all == nil {
		all = map[string]any{}
	}
	var missing []string
	for _, e := range wanted {
		value, found, err := e.Path.Value(map[string]any{"Values": of})
		switch {
		case err != nil:
			missing = append(missing, fmt.Sprintf("export %q: jsonPath %s: %v", e.Key, e.Path, err))
		case !found:
			missing = append(missing, fmt.Sprintf(
				"export %q: the values of the chart have nothing at %s; paths begin with .Values", e.Key, e.Path))
		default:
			export.Insert(all, e.Key, value)
		}
	}
	if len(missing) > 0 {
		return nil, sdk.ConfigurationError(ReasonExportMissing, "spec.config: %s", strings.Join(missing, "; "))
	}
	return all, nil
}
