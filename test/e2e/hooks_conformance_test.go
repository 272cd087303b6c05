package e2e

import (
	"path/filepath"
	"testing"

	"github.com/pergola-deploy/pergola/sdk/sdktest"
)

// Plugins with hooks, and those with nothing else, keep the rules of the protocol.
func TestHookPluginsConform(t *testing.T) {
	for name, cases := range map[string][]sdktest.Case{
		"tracer": {{Name: "works", Call: sdktest.Call{
			JobID: "job",
			DeployItem: newItem("default", "item", traceType, tracerConfig(t, map[string]any{
				"children": map[string]any{"first": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "c"}}},
			})),
		}}},
		"hooksonly": {{Name: "works", Call: sdktest.Call{JobID: "job", DeployItem: newItem("default", "item", mockType, mockSucceeds)}}},
	} {
		t.Run(name, func(t *testing.T) {
			for _, c := range cases {
				c.Call.DeployItem.UID = "4f0c1c1e-0000-4000-8000-000000000000"
			}
			sdktest.Conform(t, sdktest.Start(t, filepath.Join(binaries, "test", name)), cases...)
		})
	}
}
