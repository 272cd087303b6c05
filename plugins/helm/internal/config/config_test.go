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
	"github.com/pergola-deploy/pergola/test/cases"
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
	maps.Copy(c, changes)
	return c
}

func mustMarshal(t *testing.T, value any) []byte {
	t.Helper()
	document, err := json.Marshal(value)
	if err != nil {
		t.Fatal(err)
	}
	return document
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
	read, err := config.Read(requestOf(mustMarshal(t, c)), true)
	if err != nil {
		t.Fatal(err)
	}
	return read
}

func isSame(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s: -want +got:\n%s", what, diff)
	}
}

func TestReadDefaults(t *testing.T) {
	t.Parallel()
	c := mustRead(t, shop(nil))
	isSame(t, "source", "chart registry.example.org/charts/shop:1.2.3", c.Source.String())
	isSame(t, "release", helm.Release{Namespace: "shop-ns", Name: "shop"}, c.Release)
	if none := (helm.Options{}); !c.HelmDeployment || c.CreateNamespace || c.Values != nil || c.Install != none ||
		c.Upgrade != none || c.Uninstall != none || c.UpdateStrategy != "" || c.Exports != nil || c.ValueExports != nil ||
		c.Ignored != nil || c.Unknown != nil {
		t.Errorf("expected a release and nothing that nobody has asked for, but found %+v", c)
	}
}

func TestReadEverything(t *testing.T) {
	t.Parallel()
	from := func(kind string) object { return object{"apiVersion": "v1", "kind": kind, "name": "shop"} }
	c := mustRead(t, shop(object{
		"createNamespace": true,
		"helmDeployment":  true,
		"helmDeploymentConfig": object{
			"install": object{
				"atomic": true, "force": true, "skipSchemaValidation": true, "takeOwnership": true, "timeout": "5m0s",
			},
			"upgrade":   object{"wait": true, "timeout": "none"},
			"uninstall": object{"wait": true, "timeout": "30s"},
		},
		"exports": object{"defaultTimeout": "5m", "exports": []any{
			object{"key": "tag", "jsonPath": ".Values.image.tag"},
			object{"key": "port", "jsonPath": ".spec.ports[0].port", "fromResource": from("Service")},
		}},
		"exportsFromManifests": []any{
			object{"key": "old.colour", "jsonPath": ".data.colour", "fromResource": from("ConfigMap")},
			object{"key": "old.tag", "jsonPath": "Values.tag"},
		},
	}))
	if !c.CreateNamespace || !c.HelmDeployment || c.Ignored != nil {
		t.Errorf("expected a release and its namespace, and all to have an effect, but found %+v", c)
	}
	isSame(t, "options", []helm.Options{
		{Atomic: true, Force: true, SkipSchemaValidation: true, TakeOwnership: true, Wait: true, Timeout: 5 * time.Minute},
		{Wait: true},
		{Wait: true, Timeout: 30 * time.Second},
	}, []helm.Options{c.Install, c.Upgrade, c.Uninstall})
	var found []string
	for _, e := range c.Exports {
		found = append(found, e.Key+" "+e.Path.String()+" "+e.From.Kind)
	}
	for _, e := range c.ValueExports {
		found = append(found, e.Key+" "+e.Path.String())
	}
	isSame(t, "exports", []string{
		"port .spec.ports[0].port Service", "old.colour .data.colour ConfigMap", "tag .Values.image.tag",
		"old.tag Values.tag",
	}, found)
}

func TestIgnored(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/cases/ignored.yaml", func(t *testing.T, c struct {
		Changes object
		Want    []string
	},
	) {
		isSame(t, "ignored fields", c.Want, mustRead(t, shop(c.Changes)).Ignored)
	})
}

func TestValues(t *testing.T) {
	t.Parallel()
	cases.Run(t, "testdata/cases/values.yaml", func(t *testing.T, c struct{ Values, Want string }) {
		got := mustRead(t, shop(object{"values": json.RawMessage(c.Values)})).Values
		isSame(t, "values", c.Want, string(got))
	})
}

func TestReadLeniently(t *testing.T) {
	t.Parallel()
	c, err := config.Read(requestOf(mustMarshal(t, shop(object{
		"value": object{}, "chart": object{"ref": "a.example.org/b:1", "version": "1"},
		"helmDeploymentConfig": object{"rollback": object{}},
	}))), false)
	if err != nil {
		t.Fatal(err)
	}
	isSame(t, "unknown fields", []string{
		`unknown field "chart.version"`, `unknown field "helmDeploymentConfig.rollback"`,
		`unknown field "value"; did you mean values?`,
	}, slices.Sorted(slices.Values(c.Unknown)))
}
