package e2e

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// anyConfig is a HostConfiguration in which everything has its default.
const anyConfig = "apiVersion: host.pergola.dev/v1alpha1\nkind: HostConfiguration\n"

// tracers are the plugins that leave traces in directories of the tests. Like every plugin that needs files of its
// own, they can only where the configuration says so.
var tracers = []string{"probe", "counter"}

// writeConfig writes a HostConfiguration and returns its path. One that says nothing about plugins lets the tracers
// write where the tests have their files.
func writeConfig(t *testing.T, config string) string {
	t.Helper()
	if !strings.Contains(config, "\nplugins:") {
		config += "plugins:\n"
		for _, name := range tracers {
			config += fmt.Sprintf("  %s: {confinement: {write: [%q]}}\n", name, os.TempDir())
		}
	}
	path := filepath.Join(t.TempDir(), "host.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
