package settings_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/pergola-deploy/pergola/plugins/container/internal/settings"
)

// TestSchemaHasTheFieldsOfTheTypes: a field that is added to a type is added to the schema, and one that goes, goes.
func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	var schema map[string]any
	if err := json.Unmarshal(settings.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	published, types := map[string][]string{}, map[string][]string{}
	addProperties(t, published, "", schema)
	addFields(types, "", reflect.TypeFor[settings.ContainerConfiguration]())
	if diff := cmp.Diff(types, published); diff != "" {
		t.Errorf("fields by the objects that they are in: -types +schema:\n%s", diff)
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
		property := property.(map[string]any)
		if path+name != "apiVersion" && path+name != "kind" && property["description"] == nil {
			t.Errorf("%s.%s: the schema does not say what it is", path, name)
		}
		addProperties(t, all, path+"."+name, property)
	}
}

// addFields does the same with a type.
func addFields(all map[string][]string, path string, of reflect.Type) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice {
		of = of.Elem()
	}
	// What Kubernetes reads is an open object in the schema.
	if of.Kind() != reflect.Struct || of == reflect.TypeFor[corev1.ResourceRequirements]() {
		return
	}
	for _, f := range reflect.VisibleFields(of) {
		if f.Anonymous {
			continue
		}
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		all[path] = append(all[path], name)
		addFields(all, path+"."+name, f.Type)
	}
	slices.Sort(all[path])
}
