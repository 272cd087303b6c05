package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/conformance"
)

// TestMain makes the test's own program that of the plugins, under another name than go test gives it.
func TestMain(m *testing.M) {
	if filepath.Ext(os.Args[0]) != ".test" {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestPlugins(t *testing.T) {
	t.Parallel()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"container", "helm", "manifest", "mock"} {
		program := filepath.Join(dir, name)
		if err := os.Symlink(self, program); err != nil {
			t.Fatal(err)
		}
		plugin, err := conformance.Start(t.Context(), program, conformance.Options{})
		if err != nil {
			t.Fatal(err)
		}
		if found := plugin.Info().Name; found != name {
			t.Errorf("expected the plugin %s, but found %s", name, found)
		}
		plugin.Close()
	}
}
