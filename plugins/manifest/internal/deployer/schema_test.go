package deployer_test

import (
	"encoding/json"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
	"github.com/pergola-deploy/pergola/plugins/manifest/internal/deployer"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

// published is the schema of provider configurations.
var published = schematest.New(deployer.Schema)

// whole returns configurations in which each field is set that can be, without contradictions.
func whole() map[string]object {
	configMap := object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": object{"name": "a"}}
	reference := object{"apiVersion": "v1", "kind": "ConfigMap", "name": "a", "namespace": "b"}
	requirements := []any{object{"jsonPath": ".data.x", "operator": "in", "values": []any{object{"value": 1}}}}
	value := object{
		"key": "a.b", "jsonPath": ".x", "fromResource": reference, "targetName": "other",
		"fromObjectRef": object{"apiVersion": "v1", "kind": "Secret", "jsonPath": ".data"},
	}
	deletion := groups(forced("crds"), object{"customResourceGroup": object{
		"forceDelete": true, "deleteAllResources": true, "targetName": "other",
		"resources": []any{object{"apiVersion": "v1", "kind": "configmaps", "names": []any{"a"}, "namespaces": []any{"b"}}},
	}})
	older := object{
		"apiVersion": v1alpha1.GroupVersion.String(), "kind": "ProviderConfiguration", "updateStrategy": "patch",
		"readinessChecks": object{"disableDefault": true, "custom": []any{
			object{"name": "a", "disabled": true, "resourceSelector": []any{reference}, "requirements": requirements, "targetName": "other"},
			object{"name": "b", "labelSelector": object{"apiVersion": "v1", "kind": "A", "matchLabels": object{"a": "b"}}, "requirements": requirements},
		}},
		"manifests":      []any{configMap},
		"exports":        object{"defaultTimeout": "5m", "exports": []any{value}},
		"deletionGroups": deletion, "deletionGroupsDuringUpdate": deletion,
	}
	newer := with(with(older, "apiVersion", v1alpha2.GroupVersion.String()), "updateStrategy", "apply")
	newer["continuousReconcile"] = object{"every": "1h"}
	newer["manifests"] = []any{object{
		"policy": "fallback", "manifest": configMap, "annotateBeforeCreate": object{"a": "b"}, "annotateBeforeDelete": object{"a": "b"},
		"patchAfterDeployment": object{"data": object{"a": "b"}}, "patchBeforeDelete": object{"data": nil}, "recreate": true, "force": true,
	}}
	return map[string]object{
		"v1alpha1": older, "v1alpha1 with a list of exports": with(older, "exports", []any{value}),
		"v1alpha2": newer, "v1alpha2 with a list of exports": with(newer, "exports", []any{value}),
		"cron": with(newer, "continuousReconcile", object{"cron": "@daily"}),
	}
}

// free are the fields below which there is no schema.
var free = []string{"manifest", "patchAfterDeployment", "patchBeforeDelete", "values", "annotateBeforeCreate", "annotateBeforeDelete", "matchLabels"}

// TestSchemaAndDecoding: what the schema and the deployer say of a configuration is the same, when it is good, has an
// unknown field anywhere, or a value of a wrong type anywhere.
func TestSchemaAndDecoding(t *testing.T) {
	t.Parallel()
	plugin := newWorld(t).Plugin
	isGood := func(t *testing.T, c object) (schema, decoding bool) {
		t.Helper()
		document, err := json.Marshal(c)
		if err != nil {
			t.Fatal(err)
		}
		problems, err := plugin.Validate(t.Context(), v1alpha2.Type, document)
		if err != nil {
			t.Fatal(err)
		}
		if len(problems) > 0 {
			t.Logf("the deployer: %v", problems)
		}
		wrong := published.Validate(t, document)
		return wrong == nil, len(problems) == 0
	}
	for name, c := range whole() {
		t.Run(name, func(t *testing.T) {
			if schema, decoding := isGood(t, c); !schema || !decoding {
				t.Fatalf("the schema accepts it: %t; the deployer accepts it: %t", schema, decoding)
			}
			for place, bad := range spoilt(c) {
				if schema, decoding := isGood(t, bad); schema || decoding {
					t.Errorf("%s: the schema accepts it: %t; the deployer accepts it: %t", place, schema, decoding)
				}
			}
		})
	}
}

// spoilt returns a configuration with one thing wrong in each, by the place where it is.
func spoilt(config object) map[string]object {
	all := map[string]object{}
	bare := config["apiVersion"] == v1alpha1.GroupVersion.String()
	var visit func(value any, path string, set func(any) object)
	visit = func(value any, path string, set func(any) object) {
		switch v := value.(type) {
		case object:
			if !bare || !strings.HasPrefix(path, ".manifests[") {
				all[path+" unknown"] = set(with(v, "unknownField", true))
			}
			all[path+" type"] = set("text")
			for key, inner := range v {
				switch {
				case bare && strings.HasPrefix(path, ".manifests["):
				case slices.Contains(free, key):
					all[path+"."+key+" type"] = set(with(v, key, "text"))
				default:
					visit(inner, path+"."+key, func(other any) object { return set(with(v, key, other)) })
				}
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
	for key, inner := range config {
		visit(inner, "."+key, func(other any) object { return with(config, key, other) })
	}
	all["unknown"] = with(config, "unknownField", true)
	return all
}

func TestSchemaHasTheFieldsOfTheTypes(t *testing.T) {
	t.Parallel()
	published.MustDefine(t, map[reflect.Type]string{
		reflect.TypeFor[v1alpha1.ProviderConfiguration](): "-v1alpha1", reflect.TypeFor[v1alpha2.ProviderConfiguration](): "-v1alpha2",
	})
}
