package docs

import (
	"bytes"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"sigs.k8s.io/yaml"

	"github.com/pergola-deploy/pergola/sdk/api/landscaper/v1alpha1"
	"github.com/pergola-deploy/pergola/sdk/api/manifest/v1alpha2"
)

const (
	manifestPage = "docs/manifest.md"
	// The schemas that the manifest plugin publishes.
	configurationSchema = "plugins/manifest/internal/config/providerconfiguration.schema.json"
	settingsSchema      = "plugins/manifest/internal/settings/schema.json"
)

// TestManifestPage: what the page about the manifest deployer shows is a deploy item, a part of a provider
// configuration, or the document of the plugin, and all of it is as the plugin reads it.
func TestManifestPage(t *testing.T) {
	t.Parallel()
	shown := map[string]int{}
	for i, document := range blocks(t, manifestPage, "yaml") {
		content := map[string]any{}
		if err := yaml.UnmarshalStrict([]byte(document), &content); err != nil {
			t.Errorf("block %d: %v", i, err)
			continue
		}
		kind, err := checkManifestBlock(t, content)
		shown[kind]++
		if err != nil {
			t.Errorf("block %d, %s: %v\n%s", i, kind, err, document)
		}
	}
	want := []string{"DeployItem", "ManifestConfiguration", "deletionGroups", "exports", "ignoreDifferences",
		"readinessChecks"}
	if got := slices.Sorted(maps.Keys(shown)); !slices.Equal(got, want) {
		t.Errorf("expected the page to show %v, but found %v", want, got)
	}
}

// checkManifestBlock holds a block against its type and the published schema, and says what it is.
func checkManifestBlock(t *testing.T, content map[string]any) (kind string, err error) {
	t.Helper()
	switch kind, _ := content["kind"].(string); kind {
	case v1alpha1.DeployItemGVK.Kind: // TestObjects reads it.
		spec, _ := content["spec"].(map[string]any)
		return kind, fitsSchema(t, configurationSchema, spec["config"])
	case "":
		kind := strings.Join(slices.Sorted(maps.Keys(content)), ", ")
		content["apiVersion"], content["kind"] = v1alpha2.GroupVersion.String(), v1alpha2.ProviderConfigurationKind
		return kind, checkConfiguration(t, content)
	default:
		return kind, fitsSchema(t, settingsSchema, content)
	}
}

func checkConfiguration(t *testing.T, content map[string]any) error {
	t.Helper()
	document, err := yaml.Marshal(content)
	if err != nil {
		return err
	}
	if err := yaml.UnmarshalStrict(document, &v1alpha2.ProviderConfiguration{}); err != nil {
		return err
	}
	return fitsSchema(t, configurationSchema, content)
}

// fitsSchema holds JSON against a schema of the repository.
func fitsSchema(t *testing.T, path string, content any) error {
	t.Helper()
	schema, err := jsonschema.UnmarshalJSON(bytes.NewBufferString(page(t, path)))
	if err != nil {
		return err
	}
	compiler := jsonschema.NewCompiler()
	if err := compiler.AddResource("schema.json", schema); err != nil {
		return err
	}
	return compiler.MustCompile("schema.json").Validate(content)
}
