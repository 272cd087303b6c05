package e2e

import (
	"path/filepath"
	"testing"
)

// TestPluginsSchema: an author of DeployItems gets the schemas from the plugin itself.
func TestPluginsSchema(t *testing.T) {
	t.Parallel()
	manifest := filepath.Join(binaries, "plugins", "manifest")
	pergola(t, "plugins", "schema", manifest).expect(t, 0, `"deletionGroupsDuringUpdate"`, `"$schema"`)
	pergola(t, "plugins", "schema", manifest, "landscaper.gardener.cloud/kubernetes-manifest").expect(t, 0, `"deletionGroupsDuringUpdate"`)
	pergola(t, "plugins", "schema", manifest, "--own").expect(t, 0, `"ManifestConfiguration"`)
	pergola(t, "plugins", "schema", manifest, "example.org/other").expect(t, 1, `no schema for "example.org/other"`)
	pergola(t, "plugins", "schema", filepath.Join(binaries, "test", "counter")).expect(t, 1, "the plugin counter publishes no such schema")
}
