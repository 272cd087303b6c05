package docs

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

// TestPagesHaveTheFields: each field of a provider configuration, and of the plugin's own, is on the page.
func TestPagesHaveTheFields(t *testing.T) {
	t.Parallel()
	for name, files := range map[string][]string{
		containerPage: {containerConfigurationSchema, containerSettingsSchema},
		helmPage:      {helmConfigurationSchema, helmSettingsSchema},
		manifestPage:  {configurationSchema, settingsSchema},
	} {
		text := page(t, name)
		for _, file := range files {
			for _, field := range fieldsOf(t, file) {
				if !strings.Contains(text, field) {
					t.Errorf("%s does not describe the field %s of %s", name, field, file)
				}
			}
		}
	}
}

// fieldsOf returns the names of the fields in a schema that are not those of the parts which all deployers have in
// common.
func fieldsOf(t *testing.T, file string) []string {
	t.Helper()
	var schema map[string]any
	if err := yaml.Unmarshal([]byte(page(t, file)), &schema); err != nil {
		t.Fatal(err)
	}
	definitions, _ := schema["$defs"].(map[string]any)
	var names []string
	for name, definition := range definitions {
		ofCharts := slices.Contains([]string{"Chart", "Archive", "RemoteArchive"}, name)
		if ofCharts || strings.HasPrefix(name, "Helm") || strings.HasPrefix(name, "ProviderConfiguration") {
			names = append(names, propertiesOf(definition)...)
		}
	}
	return append(names, propertiesOf(schema)...)
}

// propertiesOf returns the names of the properties of a schema and of those in it.
func propertiesOf(schema any) []string {
	of, _ := schema.(map[string]any)
	properties, _ := of["properties"].(map[string]any)
	names := slices.Collect(maps.Keys(properties))
	for _, property := range properties {
		names = append(names, propertiesOf(property)...)
	}
	return append(names, itemsOf(of)...)
}

func itemsOf(schema map[string]any) []string {
	items, ok := schema["items"]
	if !ok {
		return nil
	}
	return propertiesOf(items)
}
