package main

import (
	"encoding/json"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/managedresource"
	mockv1alpha1 "github.com/pergola-deploy/pergola/sdk/api/mock/v1alpha1"
	"github.com/pergola-deploy/pergola/test/configtest"
)

// The published schema accepts and refuses the same configurations as the deployer.
func TestSchema(t *testing.T) {
	published := configtest.NewSchema(newPlugin(t).Info().ProviderConfigSchemas[mockv1alpha1.Type])
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
