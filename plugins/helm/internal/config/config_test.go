package config_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/pergola-deploy/pergola/plugins/helm/internal/config"
	"github.com/pergola-deploy/pergola/plugins/helm/internal/helm"
	"github.com/pergola-deploy/pergola/sdk"
	landscaper "github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/test/configtest"
)

type object = map[string]any

// published is the schema of provider configurations.
var published = configtest.NewSchema(config.Schema)

// shop is the configuration of a chart in a registry, with changes.
func shop(changes object) object {
	c := object{
		"apiVersion": "helm.deployer.landscaper.gardener.cloud/v1alpha1", "kind": "ProviderConfiguration",
		"chart": object{"ref": "registry.example.org/charts/shop:1.2.3"}, "name": "shop", "namespace": "shop-ns",
	}
	for key, value := range changes {
		if value == nil {
			delete(c, key)
			continue
		}
		c[key] = value
	}
	return c
}

func request(t *testing.T, c object) *sdk.Request {
	t.Helper()
	document, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	return requestOf(document)
}

func requestOf(document []byte) *sdk.Request {
	item := &landscaper.DeployItem{}
	if document != nil {
		item.Spec.Config = &runtime.RawExtension{Raw: document}
	}
	return &sdk.Request{DeployItem: item}
}

func mustRead(t *testing.T, c object) *config.Config {
	t.Helper()
	read, err := config.Read(request(t, c), true)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func TestReadDefaults(t *testing.T) {
	t.Parallel()
	c := mustRead(t, shop(nil))
	if c.Source.String() != "chart registry.example.org/charts/shop:1.2.3" {
		t.Errorf("found source %s", c.Source)
	}
	if diff := cmp.Diff(helm.Release{Namespace: "shop-ns", Name: "shop"}, c.Release); diff != "" {
		t.Errorf("release: -want +got:\n%s", diff)
	}
	if !c.HelmDeployment {
		t.Error("without a word there is a release")
	}
	if c.CreateNamespace || c.Values != nil || c.Install != (helm.Options{}) || c.Upgrade != (helm.Options{}) || c.Uninstall != (helm.Options{}) ||
		c.UpdateStrategy != "" || c.Exports != nil || c.ValueExports != nil || c.Ignored != nil || c.Unknown != nil {
		t.Errorf("expected nothing that nobody has asked for, but found %+v", c)
	}
}

func TestReadEverything(t *testing.T) {
	t.Parallel()
	c := mustRead(t, shop(object{
		"createNamespace": true,
		"helmDeployment":  true,
		"helmDeploymentConfig": object{
			"install":   object{"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "timeout": "5m0s"},
			"upgrade":   object{"wait": true, "timeout": "none"},
			"uninstall": object{"wait": true, "timeout": "30s"},
		},
		"exports": object{"defaultTimeout": "5m", "exports": []any{
			object{"key": "tag", "jsonPath": ".Values.image.tag"},
			object{"key": "port", "jsonPath": ".spec.ports[0].port", "fromResource": object{"apiVersion": "v1", "kind": "Service", "name": "shop"}},
		}},
		"exportsFromManifests": []any{
			object{"key": "old.colour", "jsonPath": ".data.colour", "fromResource": object{"apiVersion": "v1", "kind": "ConfigMap", "name": "shop"}},
			object{"key": "old.tag", "jsonPath": "Values.tag"},
		},
	}))
	if !c.CreateNamespace || !c.HelmDeployment {
		t.Errorf("expected a release and its namespace, but found %+v", c)
	}
	options := []helm.Options{
		{Atomic: true, Force: true, SkipSchemaValidation: true, TakeOwnership: true, Wait: true, Timeout: 5 * time.Minute},
		{Wait: true},
		{Wait: true, Timeout: 30 * time.Second},
	}
	if diff := cmp.Diff(options, []helm.Options{c.Install, c.Upgrade, c.Uninstall}); diff != "" {
		t.Errorf("options: -want +got:\n%s", diff)
	}
	var objects, values []string
	for _, e := range c.Exports {
		objects = append(objects, e.Key+" "+e.Path.String()+" "+e.From.Kind)
	}
	for _, e := range c.ValueExports {
		values = append(values, e.Key+" "+e.Path.String())
	}
	if diff := cmp.Diff([]string{"port .spec.ports[0].port Service", "old.colour .data.colour ConfigMap"}, objects); diff != "" {
		t.Errorf("exports from objects: -want +got:\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tag .Values.image.tag", "old.tag Values.tag"}, values); diff != "" {
		t.Errorf("exports from values: -want +got:\n%s", diff)
	}
	if c.Ignored != nil {
		t.Errorf("expected all to have an effect, but found %q", c.Ignored)
	}
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	groups := []any{object{"predefinedResourceGroup": object{"type": "crds"}}}
	all := object{"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "timeout": "5m"}
	for name, tc := range map[string]struct {
		reason  string
		changes object
		want    []string
	}{
		"with a release": {
			reason:  "Helm has its own ways to update and to delete",
			changes: object{"updateStrategy": "apply", "deletionGroups": groups, "deletionGroupsDuringUpdate": groups},
			want:    []string{"updateStrategy", "deletionGroups", "deletionGroupsDuringUpdate"},
		},
		"without one": {
			reason: "there are no operations on it",
			changes: object{
				"helmDeployment": false, "updateStrategy": "apply", "deletionGroups": groups, "deletionGroupsDuringUpdate": groups,
				"helmDeploymentConfig": object{"install": all, "upgrade": object{"wait": true}, "uninstall": object{"wait": true, "timeout": "1s"}},
			},
			want: []string{
				"helmDeploymentConfig.install.atomic", "helmDeploymentConfig.install.force", "helmDeploymentConfig.install.takeOwnership",
				"helmDeploymentConfig.install.timeout", "helmDeploymentConfig.upgrade.wait", "helmDeploymentConfig.uninstall.wait",
				"helmDeploymentConfig.uninstall.timeout",
			},
		},
		"schema": {
			reason:  "the schema is that of the values, not of the release, but there is one rendering only",
			changes: object{"helmDeployment": false, "helmDeploymentConfig": object{"upgrade": object{"skipSchemaValidation": true}}},
			want:    []string{"helmDeploymentConfig.upgrade.skipSchemaValidation"},
		},
		"schema of both": {
			reason: "to say it twice is no mistake",
			changes: object{"helmDeployment": false, "helmDeploymentConfig": object{
				"install": object{"skipSchemaValidation": true}, "upgrade": object{"skipSchemaValidation": true},
			}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, mustRead(t, shop(tc.changes)).Ignored); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestValues(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ reason, values, want string }{
		"order":   {reason: "the order of fields says nothing", values: `{"b":{"d":1,"c":[2,1]},"a":null}`, want: `{"a":null,"b":{"c":[2,1],"d":1}}`},
		"spaces":  {reason: "nor do spaces", values: " {\n\"a\" : 1 }", want: `{"a":1}`},
		"numbers": {reason: "a number is not rounded", values: `{"a":12345678901234567890,"b":0.1,"c":1.0}`, want: `{"a":12345678901234567890,"b":0.1,"c":1.0}`},
		"empty":   {reason: "no values are none, however they are written", values: `{}`},
		"null":    {reason: "and so is null", values: `null`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := mustRead(t, shop(object{"values": json.RawMessage(tc.values)})).Values; string(got) != tc.want {
				t.Errorf("%s: expected %s, but found %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestReadLeniently(t *testing.T) {
	t.Parallel()
	c, err := config.Read(request(t, shop(object{
		"value": object{}, "chart": object{"ref": "a.example.org/b:1", "version": "1"}, "helmDeploymentConfig": object{"rollback": object{}},
	})), false)
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		`unknown field "chart.version"`, `unknown field "helmDeploymentConfig.rollback"`,
		`unknown field "value"; did you mean values?`,
	}
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(c.Unknown))); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// with returns an object with one field more.
func with(o object, key string, value any) object {
	o = maps.Clone(o)
	o[key] = value
	return o
}
