package config_test

import (
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
	"github.com/pergola-deploy/pergola/sdk/api/helm/v1alpha1"
)

// published is the schema of provider configurations.
var published = schematest.New(config.Schema)

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

// TestSchemaAndDecoding: what the schema and the reader say of a configuration is the same, when it is good, has an
// unknown field anywhere, or a value of a wrong type anywhere.
func TestSchemaAndDecoding(t *testing.T) {
	t.Parallel()
	isGood := func(t *testing.T, c object) (schema, decoding bool) {
		t.Helper()
		document, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		_, err = config.Read(requestOf(document), true)
		return published.Validate(t, document) == nil, err == nil
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

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	published.MustDefine(t, map[reflect.Type]string{reflect.TypeFor[v1alpha1.ProviderConfiguration](): "-v1alpha1"})
}
