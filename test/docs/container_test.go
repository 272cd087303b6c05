package docs

import (
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/container/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

const (
	containerPage = "docs/container.md"
	// The schemas that the container plugin publishes.
	containerConfigurationSchema = "plugins/container/internal/config/providerconfiguration.schema.json"
	containerSettingsSchema      = "plugins/container/internal/config/settings.schema.json"
)

// TestContainerPage: what the page about the container deployer shows is read by the plugin whose program it shows.
func TestContainerPage(t *testing.T) {
	t.Parallel()
	plugin := sdktest.Start(t, build(t, containerPage, "container"), "HOME="+t.TempDir())
	var configuration, settings map[string]any
	for i, document := range blocks(t, containerPage, "yaml") {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			t.Fatalf("block %d: %v", i, err)
		}
		switch content["kind"] {
		case "DeployItem":
			configuration, _ = content["spec"].(map[string]any)["config"].(map[string]any)
		case "HostConfiguration":
			container, _ := content["plugins"].(map[string]any)["container"].(map[string]any)
			settings, _ = container["config"].(map[string]any)
		default:
			t.Errorf("block %d is a %v", i, content["kind"])
		}
	}
	if err := fitsSchema(t, containerConfigurationSchema, configuration); err != nil {
		t.Error(err)
	}
	if err := fitsSchema(t, containerSettingsSchema, settings); err != nil {
		t.Error(err)
	}
	document, err := yaml.Marshal(settings)
	if err != nil {
		t.Fatal(err)
	}
	if problems, err := plugin.Configure(patient(t), document); err != nil || len(problems) > 0 {
		t.Errorf("the plugin finds %v, error %v", problems, err)
	}
	configuration["blueprint"] = map[string]any{"ref": map[string]any{"resourceName": "roses"}}
	raw := sdktest.DeployItem(v1alpha1.Type, configuration).Spec.Config.Raw
	if problems, err := plugin.Validate(patient(t), v1alpha1.Type, raw); err != nil || len(problems) > 0 {
		t.Errorf("the plugin with a resolver finds %v, error %v", problems, err)
	}
}
