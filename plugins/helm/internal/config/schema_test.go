package config_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// compiled is the published schema.
var compiled = sync.OnceValues(func() (*jsonschema.Schema, error) {
	schema, err := jsonschema.UnmarshalJSON(bytes.NewReader(config.Schema))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", schema); err != nil {
		return nil, err
	}
	return compiler.Compile("schema.json")
})

// fitsSchema holds a provider configuration against the published schema.
func fitsSchema(t *testing.T, document []byte) error {
	t.Helper()
	schema, err := compiled()
	if err != nil {
		t.Fatal(err)
	}
	instance, err := jsonschema.UnmarshalJSON(bytes.NewReader(document))
	if err != nil {
		t.Fatal(err)
	}
	return schema.Validate(instance)
}

// whole returns configurations in which, together, each field is set that can be, without contradictions.
func whole() map[string]object {
	reference := object{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "b"}
	requirements := []any{object{"jsonPath": ".data.x", "operator": "in", "values": []any{object{"value": 1}}}}
	exports := []any{
		object{
			"key": "a.b", "jsonPath": ".x", "fromResource": reference, "targetName": "other",
			"fromObjectRef": object{"apiVersion": "v1", "kind": "Secret", "jsonPath": ".data"},
		},
		object{"key": "a.c", "jsonPath": ".Values.x"},
	}
	deletion := []any{
		object{"predefinedResourceGroup": object{"type": "crds", "forceDelete": true}},
		object{"customResourceGroup": object{
			"forceDelete": true, "deleteAllResources": true, "targetName": "other",
			"resources": []any{object{"apiVersion": "v1", "kind": "configmaps", "names": []any{"a"}, "namespaces": []any{"b"}}},
		}},
	}
	options := object{"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "wait": true, "timeout": "5m"}
	all := shop(object{
		"createNamespace": true, "values": object{"a": 1}, "helmDeployment": true, "updateStrategy": "patch",
		"helmDeploymentConfig": object{"install": options, "upgrade": options, "uninstall": object{"wait": true, "timeout": "5m"}},
		"readinessChecks": object{"disableDefault": true, "custom": []any{
			object{"name": "a", "disabled": true, "resourceSelector": []any{reference}, "requirements": requirements, "targetName": "other"},
			object{"name": "b", "labelSelector": object{"apiVersion": "v1", "kind": "A", "matchLabels": object{"a": "b"}}, "requirements": requirements},
		}},
		"exportsFromManifests": []any{with(exports[0].(object), "key", "c")},
		"exports":              object{"defaultTimeout": "5m", "exports": exports},
		"continuousReconcile":  object{"every": "1h"},
		"deletionGroups":       deletion, "deletionGroupsDuringUpdate": deletion,
	})
	return map[string]object{
		"registry": all, "list of exports": with(all, "exports", exports), "cron": with(all, "continuousReconcile", object{"cron": "@daily"}),
		"repository": with(all, "chart", object{"helmChartRepo": object{
			"helmChartRepoUrl": "https://example.org", "helmChartName": "shop", "helmChartVersion": "1.x",
		}}),
		"archive":       with(all, "chart", object{"archive": object{"raw": gzipped}}),
		"remote":        with(all, "chart", object{"archive": object{"remote": object{"url": "https://example.org/a.tgz"}}}),
		"component":     with(all, "chart", object{"resourceRef": "e30="}),
		"old component": with(all, "chart", object{"fromResource": object{"any": "thing"}}),
	}
}

// free are the fields below which there is no schema.
var free = []string{"values", "matchLabels", "fromResource"}

// TestSchemaAndDecoding: what the schema and the reader say of a configuration is the same, when it is good, has an unknown field anywhere,
// or a value of a wrong type anywhere.
func TestSchemaAndDecoding(t *testing.T) {
	t.Parallel()
	isGood := func(t *testing.T, c object) (schema, decoding bool) {
		t.Helper()
		document, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Read(requestOf(document), true)
		return fitsSchema(t, document) == nil, err == nil
	}
	for name, c := range whole() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if schema, decoding := isGood(t, c); !schema || !decoding {
				_, err := config.Read(request(t, c), true)
				t.Fatalf("the schema accepts it: %t; the reader accepts it: %t (%v)", schema, decoding, err)
			}
			for place, bad := range spoilt(c) {
				if schema, decoding := isGood(t, bad); schema || decoding {
					t.Errorf("%s: the schema accepts it: %t; the reader accepts it: %t", place, schema, decoding)
				}
			}
		})
	}
}

// spoilt returns a configuration with one thing wrong in each, by the place where it is.
func spoilt(c object) map[string]object {
	all := map[string]object{"unknown": with(c, "unknownField", true)}
	var visit func(value any, path string, set func(any) object)
	visit = func(value any, path string, set func(any) object) {
		switch v := value.(type) {
		case object:
			all[path+" unknown"], all[path+" type"] = set(with(v, "unknownField", true)), set("text")
			for key, inner := range v {
				visit(inner, path+"."+key, func(other any) object { return set(with(v, key, other)) })
			}
		case []any:
			all[path+" type"] = set("text")
			for i, inner := range v {
				visit(inner, path+"["+strconv.Itoa(i)+"]", func(other any) object {
					list := slices.Clone(v)
					list[i] = other
					return set(list)
				})
			}
		default:
			all[path+" type"] = set([]any{true})
		}
	}
	for key, inner := range c {
		visit(inner, "."+key, func(other any) object { return with(c, key, other) })
	}
	maps.DeleteFunc(all, func(path string, _ object) bool {
		return slices.ContainsFunc(free, func(name string) bool {
			// A chart's fromResource may be anything, that of an export may not.
			below := strings.Contains(path, "."+name) && !strings.HasPrefix(path, ".exports") && path != "."+name+" type"
			return below || strings.Contains(path, "].values") && strings.Contains(path, ".value ")
		})
	})
	return all
}

// TestSchemaHasTheFieldsOfTheTypes: a field that is added to a type is added to the schema, and one that goes, goes.
func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	var schema struct {
		Defs map[string]struct {
			Properties           map[string]any `json:"properties"`
			AdditionalProperties any            `json:"additionalProperties"`
		} `json:"$defs"`
	}
	if err := json.Unmarshal(config.Schema, &schema); err != nil {
		t.Fatal(err)
	}
	types := map[string][]string{}
	addFields(types, reflect.TypeFor[v1alpha1.ProviderConfiguration](), "-v1alpha1")
	published := map[string][]string{}
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

// addFields adds the names of the fields of a struct in JSON, and those of all structs in it.
func addFields(all map[string][]string, of reflect.Type, suffix string) {
	switch {
	case of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice:
		addFields(all, of.Elem(), "")
		return
	case of.Kind() != reflect.Struct || of == reflect.TypeFor[runtime.RawExtension]() || all[of.Name()+suffix] != nil:
		return
	}
	var names []string
	for _, f := range reflect.VisibleFields(of) {
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous {
			continue
		}
		names = append(names, name)
		addFields(all, f.Type, "")
	}
	slices.Sort(names)
	all[of.Name()+suffix] = names
}
