package main

import (
	"encoding/json"
	"reflect"
	"testing"

	"github.com/pergola-deploy/pergola/plugins/internal/schematest"
	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
)

// The schema that the plugin publishes has the fields of the provider configuration, and accepts what the deployer
// does.
func TestSchema(t *testing.T) {
	published := schematest.New(newPlugin(t).Info().ProviderConfigSchemas[mockv1alpha1.Type])
	published.MustDefine(t, map[reflect.Type]string{reflect.TypeFor[mockv1alpha1.ProviderConfiguration](): "-v1alpha1"})
	whole := call(func(c *mockv1alpha1.ProviderConfiguration) {
		c.Phase, c.InitialPhase = inPhase(v1alpha1.DeployItemPhaseSucceeded), inPhase(v1alpha1.DeployItemPhaseProgressing)
		c.ProviderStatus, c.Export = raw(`{"apiVersion":"example.org/v1","kind":"Status"}`), raw(`{"key":"value"}`)
		c.ContinuousReconcile = &managedresource.ContinuousReconcile{Every: "1h"}
	}).DeployItem.Spec.Config.Raw
	if err := published.Validate(t, whole); err != nil {
		t.Errorf("expected the schema to accept %s, but found %v", whole, err)
	}
	for field, value := range map[string]any{"phase": true, "export": "text", "unknown": "text"} {
		config := map[string]any{}
		if err := json.Unmarshal(whole, &config); err != nil {
			t.Fatal(err)
		}
		config[field] = value
		document, err := json.Marshal(config)
		if err != nil {
			t.Fatal(err)
		}
		if published.Validate(t, document) == nil {
			t.Errorf("expected the schema to refuse %s", document)
		}
	}
}
